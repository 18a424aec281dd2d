#pragma once

#include <array>
#include <cstdint>

#include "ingot/quant/blocks/search.h"

namespace ingot::quant::blocks {

/// 256 values rounded on two levels: d and dmin (f16) for all, whole-numbered scales and minima per group.
struct SuperAffine {
  std::uint16_t d = 0, dmin = 0;
  std::array<std::uint8_t, 16> scales{}, mins{};
  std::array<std::uint8_t, 256> codes{};
};
/// `importance`: of each value, or null. `level`: the largest scale and minimum (63 for 6 bits).
/// `squared_mean`: without importance errors count √(mean x²) + |x|, else |x|.
SuperAffine round_super_affine(const float* x, const float* importance, int group, int level,
                               bool squared_mean, const AffineSearch& search);

/// The same with signed scales and no minima: codes of −top ... top − 1 with `top` added.
struct SuperSymmetric {
  std::uint16_t d = 0;
  std::array<std::int8_t, 16> scales{};
  std::array<std::uint8_t, 256> codes{};
};
/// Groups of 16; scales −level ... level − 1.
SuperSymmetric round_super_symmetric(const float* x, const float* importance, int level, int top);

/// The 12 bytes in which Q4_K and Q5_K keep 8 scales and 8 minima of 6 bits.
void unpack_six_bits(const std::uint8_t* packed, std::int8_t* scales, std::uint8_t* mins);
void pack_six_bits(const std::uint8_t* scales, const std::uint8_t* mins, std::uint8_t* packed);

}  // namespace ingot::quant::blocks
