#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct EncoderInput {
  Tensor tokens;  ///< i64 or i32 [batch, sequence]
  Tensor
      token_types;   ///< i64 or i32 [batch, sequence]: which of two segments; undefined: the first throughout
  Tensor positions;  ///< i64 or i32 [batch, sequence]; undefined: 0, 1, 2, ...
  /// i32 [batch]: how many tokens of each row count, the others are padding behind them; undefined: all.
  Tensor lengths;
  /// i32 [batch, sequence]: several texts in one row instead of padding: for each token the index in its row
  /// at which its text starts. Give positions with it.
  Tensor doc_start;
};

}  // namespace ingot
