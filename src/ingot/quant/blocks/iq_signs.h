#pragma once

#include <bit>
#include <cstdint>

namespace ingot::quant::blocks {

/// What is added to codes that have signs.
inline constexpr int kSignedZero = 128;

inline std::uint8_t signed_code(int magnitude, bool negative) {
  return static_cast<std::uint8_t>(kSignedZero + (negative ? -magnitude : magnitude));
}

/// Signs of eight weights from the lowest seven bits: the eighth makes the number of minus signs even.
inline std::uint8_t eight_signs(std::uint32_t bits) {
  const std::uint32_t seven = bits & 127U;
  return static_cast<std::uint8_t>(seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7U);
}

}  // namespace ingot::quant::blocks
