#include <algorithm>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/super_block.h"

namespace ingot::quant::blocks {
namespace {

struct Q3KBlock {
  std::uint8_t high[32];  // the third bits
  std::uint8_t codes[64];
  std::uint8_t scales[12];  // 16 of 6 bits, 32 added
  std::uint16_t d;          // f16
};
static_assert(sizeof(Q3KBlock) == 110);

void unpack_q3_k(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q3KBlock>(bytes);
  parts.d = to_float(block.d);
  for (std::size_t g = 0; g < 16; ++g) {
    const int low = (block.scales[g % 8] >> (g < 8 ? 0 : 4)) & 15;
    const int upper = (block.scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    parts.scales[g] = static_cast<std::int8_t>((low | (upper << 4)) - 32);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const int low = (block.codes[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
    const int upper = (block.high[i % 32] >> (i / 32)) & 1;
    parts.codes[i] = static_cast<std::uint8_t>(low | (upper << 2));
  }
}

void quantize_q3_k(const float* x, const float* importance, std::byte* bytes) {
  Q3KBlock block{};
  const SuperSymmetric rounded = round_super_symmetric(x, importance, 32, 4);
  block.d = rounded.d;
  for (std::size_t g = 0; g < 16; ++g) {
    const int scale = rounded.scales[g] + 32;
    std::uint8_t& low = block.scales[g % 8];
    std::uint8_t& upper = block.scales[8 + g % 4];
    low = static_cast<std::uint8_t>(low | ((scale & 15) << (g < 8 ? 0 : 4)));
    upper = static_cast<std::uint8_t>(upper | ((scale >> 4) << (2 * (g / 4))));
  }
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& low = block.codes[i / 128 * 32 + i % 32];
    std::uint8_t& upper = block.high[i % 32];
    low = static_cast<std::uint8_t>(low | ((rounded.codes[i] & 3) << (2 * (i / 32 % 4))));
    upper = static_cast<std::uint8_t>(upper | ((rounded.codes[i] >> 2) << (i / 32)));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ3_K{.name = "Q3_K",
                        .gguf_type = 11,
                        .elements = 256,
                        .bytes = sizeof(Q3KBlock),
                        .group = 16,
                        .zero = 4,
                        .has_min = false,
                        .unpack = unpack_q3_k,
                        .quantize = quantize_q3_k};

}  // namespace ingot::quant::blocks
