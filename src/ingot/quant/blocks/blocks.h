#pragma once

#include <cstring>

#include "ingot/core/dtype.h"
#include "ingot/quant/block_format.h"

// One constant per file of this folder; block_format.cpp lists them.
namespace ingot::quant::blocks {

// NOLINTNEXTLINE(readability-identifier-naming): GGUF's own names
extern const BlockFormat kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kMxFp4, kIq1S,
    kIq1M, kIq2Xxs, kIq2Xs, kIq2S, kIq3Xxs, kIq3S, kIq4Nl, kIq4Xs, kTq1, kTq2;

/// A block's struct from and to bytes of any alignment.
template <class Block>
Block load(const std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof(block));
  return block;
}
template <class Block>
void store(const Block& block, std::byte* bytes) {
  std::memcpy(bytes, &block, sizeof(block));
}

inline float to_float(std::uint16_t half) {
  f16 value;
  value.bits = half;
  return static_cast<float>(value);
}
inline std::uint16_t to_half(float value) { return f16(value).bits; }

/// Parts of a format with one scale per block.
inline void set_flat(BlockParts& parts, float d, float minimum = 0) {
  parts.d = d;
  parts.dmin = -minimum;
  parts.scales.fill(1);
  parts.mins.fill(1);
}

}  // namespace ingot::quant::blocks
