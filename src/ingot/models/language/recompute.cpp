#include "ingot/models/language/recompute.h"

#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/suggest.h"

namespace ingot {

const std::vector<std::string>& recompute_words() {
  static const std::vector<std::string> words{"false", "selective", "true", "full"};
  return words;
}

std::string_view name(Recompute recompute) { return recompute_words()[static_cast<std::size_t>(recompute)]; }

Recompute parse_recompute(std::string_view word, std::string_view key) {
  if (const auto flag = parse_bool(word)) return *flag ? Recompute::full : Recompute::none;
  if (word == "selective") return Recompute::selective;
  if (word == "full") return Recompute::full;
  throw InvalidConfig(std::string(key),
                      fmt::format("must be one of {}, got '{}'{}", fmt::join(recompute_words(), ", "), word,
                                  did_you_mean(word, recompute_words())));
}

}  // namespace ingot
