#include <algorithm>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/super_block.h"

namespace ingot::quant::blocks {
namespace {

struct Q5KBlock {
  std::uint16_t d, dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t high[32];    // the fifth bits: bit g of byte l belongs to code 32 g + l
  std::uint8_t codes[128];  // as in Q4_K
};
static_assert(sizeof(Q5KBlock) == 176);

void unpack_q5_k(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q5KBlock>(bytes);
  parts.d = to_float(block.d);
  parts.dmin = to_float(block.dmin);
  unpack_six_bits(block.scales, parts.scales.data(), parts.mins.data());
  for (std::size_t i = 0; i < 256; ++i) {
    const int low = (block.codes[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2))) & 15;
    const int upper = (block.high[i % 32] >> (i / 32)) & 1;
    parts.codes[i] = static_cast<std::uint8_t>(low | (upper << 4));
  }
}

void quantize_q5_k(const float* x, const float* importance, std::byte* bytes) {
  Q5KBlock block{};
  const SuperAffine rounded =
      round_super_affine(x, importance, 32, 63, true,
                         {.top = 31, .first = -0.5F, .step = 0.1F, .count = 15, .absolute_error = false});
  block.d = rounded.d;
  block.dmin = rounded.dmin;
  pack_six_bits(rounded.scales.data(), rounded.mins.data(), block.scales);
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& low = block.codes[i / 64 * 32 + i % 32];
    std::uint8_t& upper = block.high[i % 32];
    low = static_cast<std::uint8_t>(low | ((rounded.codes[i] & 15) << (4 * (i / 32 % 2))));
    upper = static_cast<std::uint8_t>(upper | ((rounded.codes[i] >> 4) << (i / 32)));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ5_K{.name = "Q5_K",
                        .gguf_type = 13,
                        .elements = 256,
                        .bytes = sizeof(Q5KBlock),
                        .group = 32,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack_q5_k,
                        .quantize = quantize_q5_k};

}  // namespace ingot::quant::blocks
