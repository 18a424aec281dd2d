#pragma once

#include <bit>
#include <cstdint>

#include "ingot/core/dtype.h"

namespace ingot::kernels {

/// What the master weight of a half parameter is kept as: f32 for f16, and for bf16 the i16 `remainder` of
/// SplitWeight.
constexpr DType master_dtype(DType param) { return param == DType::bf16 ? DType::i16 : DType::f32; }

/// An f32 master weight as its bf16 parameter and 16 bits more, so that nothing is kept twice:
///   bits(master) = (bits(param) << 16) + remainder
/// The parameter is the master, rounded to the nearest with ties away from zero, so the remainder fits an i16
/// and every f32 has exactly one pair. A NaN is the one that bf16(float) gives, with a remainder of 0.
struct SplitWeight {
  bf16 param;
  std::int16_t remainder = 0;
};

inline SplitWeight split_weight(float master) {
  SplitWeight split;
  const auto word = std::bit_cast<std::uint32_t>(master);
  if ((word & 0x7fffffffU) > 0x7f800000U) {
    split.param = bf16(master);
  } else {
    split.param.bits = static_cast<std::uint16_t>((word + 0x8000U) >> 16);
    split.remainder = static_cast<std::int16_t>(word);
  }
  return split;
}

inline float join_weight(SplitWeight split) {
  return std::bit_cast<float>((static_cast<std::uint32_t>(split.param.bits) << 16) +
                              static_cast<std::uint32_t>(std::int32_t{split.remainder}));
}

}  // namespace ingot::kernels
