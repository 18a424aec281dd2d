#include "ingot/text/normalizer.h"

#include <fmt/format.h>

#include "ingot/text/json_view.h"

namespace ingot::text {

std::unique_ptr<Normalizer> make_normalizer(const JsonView& config) {
  const std::string type = config.string("type");
  config.fail(fmt::format("unknown normalizer \"{}\"", type));
}

}  // namespace ingot::text
