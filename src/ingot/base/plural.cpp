#include "ingot/base/plural.h"

#include <fmt/format.h>

namespace ingot {

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string counted_are(std::int64_t count, std::string_view noun) {
  return counted(count, noun) + (count == 1 ? " is" : " are");
}

}  // namespace ingot
