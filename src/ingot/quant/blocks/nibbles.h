#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::quant::blocks {

/// 32 codes of 4 bits: byte i holds code i below and code i + 16 above.
inline void unpack_nibbles(const std::uint8_t* packed, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
}
inline void pack_nibbles(const std::uint8_t* codes, std::uint8_t* packed) {
  for (std::size_t i = 0; i < 16; ++i)
    packed[i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + 16] << 4));
}

/// The fifth bit of 32 codes: bit i belongs to code i.
inline void add_fifth_bits(std::uint32_t bits, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 32; ++i)
    codes[i] = static_cast<std::uint8_t>(codes[i] | (((bits >> i) & 1) << 4));
}
inline std::uint32_t fifth_bits(const std::uint8_t* codes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 32; ++i) bits |= static_cast<std::uint32_t>(codes[i] >> 4) << i;
  return bits;
}

/// Codes 0 ... top of 32 values around 0; returns the scale, whose sign lets the value of largest magnitude
/// have code 0, the end of the range that reaches one step further.
float round_symmetric(const float* x, int top, std::uint8_t* codes);

/// The same where columns have an importance: the scale that fits best.
float round_symmetric(const float* x, const float* importance, int top, std::uint8_t* codes);

struct Affine {
  float scale, minimum;
};
/// Codes 0 ... top of 32 values between their minimum and maximum.
Affine round_affine(const float* x, int top, std::uint8_t* codes);
/// The same where columns have an importance: the line that fits best.
Affine round_affine(const float* x, const float* importance, int top, std::uint8_t* codes);

}  // namespace ingot::quant::blocks
