#include <algorithm>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/super_block.h"

namespace ingot::quant::blocks {
namespace {

struct Q4KBlock {
  std::uint16_t d, dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t codes[128];  // 32 bytes hold 64 codes: byte l has codes l below and l + 32 above
};
static_assert(sizeof(Q4KBlock) == 144);

void unpack_q4_k(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q4KBlock>(bytes);
  parts.d = to_float(block.d);
  parts.dmin = to_float(block.dmin);
  unpack_six_bits(block.scales, parts.scales.data(), parts.mins.data());
  for (std::size_t i = 0; i < 256; ++i)
    parts.codes[i] = (block.codes[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2))) & 15;
}

void quantize_q4_k(const float* x, const float* importance, std::byte* bytes) {
  Q4KBlock block{};
  const SuperAffine rounded =
      round_super_affine(x, importance, 32, 63, true,
                         {.top = 15, .first = -1, .step = 0.1F, .count = 20, .absolute_error = false});
  block.d = rounded.d;
  block.dmin = rounded.dmin;
  pack_six_bits(rounded.scales.data(), rounded.mins.data(), block.scales);
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& byte = block.codes[i / 64 * 32 + i % 32];
    byte = static_cast<std::uint8_t>(byte | (rounded.codes[i] << (4 * (i / 32 % 2))));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ4_K{.name = "Q4_K",
                        .gguf_type = 12,
                        .elements = 256,
                        .bytes = sizeof(Q4KBlock),
                        .group = 32,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack_q4_k,
                        .quantize = quantize_q4_k};

}  // namespace ingot::quant::blocks
