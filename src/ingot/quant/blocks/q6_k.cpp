#include <algorithm>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/super_block.h"

namespace ingot::quant::blocks {
namespace {

struct Q6KBlock {
  std::uint8_t low[128];  // 64 bytes hold 128 codes: byte l has codes l below and l + 64 above
  std::uint8_t high[64];  // 32 bytes hold the upper bits of 128: byte l those of l, l + 32, l + 64, l + 96
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};
static_assert(sizeof(Q6KBlock) == 210);

void unpack_q6_k(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q6KBlock>(bytes);
  parts.d = to_float(block.d);
  std::copy_n(block.scales, 16, parts.scales.data());
  for (std::size_t i = 0; i < 256; ++i) {
    const int low = (block.low[i / 128 * 64 + i % 64] >> (4 * (i / 64 % 2))) & 15;
    const int upper = (block.high[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
    parts.codes[i] = static_cast<std::uint8_t>(low | (upper << 4));
  }
}

void quantize_q6_k(const float* x, const float* importance, std::byte* bytes) {
  Q6KBlock block{};
  const SuperSymmetric rounded = round_super_symmetric(x, importance, 128, 32);
  block.d = rounded.d;
  std::copy_n(rounded.scales.data(), 16, block.scales);
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& low = block.low[i / 128 * 64 + i % 64];
    std::uint8_t& upper = block.high[i / 128 * 32 + i % 32];
    low = static_cast<std::uint8_t>(low | ((rounded.codes[i] & 15) << (4 * (i / 64 % 2))));
    upper = static_cast<std::uint8_t>(upper | ((rounded.codes[i] >> 4) << (2 * (i / 32 % 4))));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ6_K{.name = "Q6_K",
                        .gguf_type = 14,
                        .elements = 256,
                        .bytes = sizeof(Q6KBlock),
                        .group = 16,
                        .zero = 32,
                        .has_min = false,
                        .unpack = unpack_q6_k,
                        .quantize = quantize_q6_k};

}  // namespace ingot::quant::blocks
