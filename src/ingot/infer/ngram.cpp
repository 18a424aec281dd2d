#include "ingot/infer/ngram.h"

#include <algorithm>

namespace ingot::infer {

std::vector<std::int32_t> ngram_draft(std::span<const std::int32_t> tokens, std::int64_t count) {
  if (count <= 0) return {};
  for (const std::size_t n : {std::size_t{3}, std::size_t{2}}) {
    if (tokens.size() <= n) continue;
    const auto tail = tokens.last(n);
    for (std::size_t start = tokens.size() - n; start-- > 0;) {
      if (!std::ranges::equal(tokens.subspan(start, n), tail)) continue;
      const auto after = tokens.subspan(start + n);
      const auto take = std::min(static_cast<std::size_t>(count), after.size());
      return {after.begin(), after.begin() + static_cast<std::ptrdiff_t>(take)};
    }
  }
  return {};
}

}  // namespace ingot::infer
