#pragma once

#include <cstdint>

#include "ingot/kernels/cpu/attention_tile.h"

namespace ingot::kernels::cpu {

/// Matmuls of small matrices in bf16 with sums in f32. Two numbers that are neighbours along the axis that
/// is summed over make a 32-bit word, which stands where a float would: the first in its low half.
struct Bf16Pairs {
  /// Rows [row, row + rows) of g, at most kBlockRows; k counts words.
  void (*multiply)(const SmallGemm& g, std::int64_t row, std::int64_t rows);
  /// to[i] = x[2i] and x[2i + 1], rounded to even; n numbers, a multiple of 16. `to` may be x.
  void (*round)(const float* x, float* to, std::int64_t n);
  /// to[i] = even[i] and odd[i]; n words, a multiple of 16. `to` may be even.
  void (*round_two)(const float* even, const float* odd, float* to, std::int64_t n);
};

/// For processors of InstructionSet::avx512_bf16; null where the compiler has no such instructions.
const Bf16Pairs* bf16_pairs();

}  // namespace ingot::kernels::cpu
