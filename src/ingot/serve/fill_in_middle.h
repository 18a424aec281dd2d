#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::serve {

/// The tokens by which a model for code is asked for what stands between two texts (fill-in-the-middle).
struct FillTokens {
  std::int32_t prefix = 0, suffix = 0;
  std::int32_t middle = -1;        ///< −1: none, the text goes on behind the prefix
  bool suffix_first = false;       ///< the suffix stands before the prefix
  std::vector<std::int32_t> stop;  ///< beside the model's own
  const text::Tokenizer* tokenizer = nullptr;

  /// The prompt that asks for what comes between `before`, which may begin with a special token of the
  /// model's, and `after`.
  std::vector<std::int32_t> around(const std::vector<std::int32_t>& before, const std::string& after) const;
};

/// Those of a tokenizer, which outlives them. Throws ApiError for `suffix` where it has none.
FillTokens fill_tokens(const text::Tokenizer& tokenizer);

}  // namespace ingot::serve
