#include <algorithm>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/super_block.h"

namespace ingot::quant::blocks {
namespace {

struct Q2KBlock {
  std::uint8_t scales[16];  // scale below, minimum above
  std::uint8_t codes[64];
  std::uint16_t d, dmin;  // f16
};
static_assert(sizeof(Q2KBlock) == 84);

void unpack_q2_k(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q2KBlock>(bytes);
  parts.d = to_float(block.d);
  parts.dmin = to_float(block.dmin);
  for (std::size_t g = 0; g < 16; ++g) {
    parts.scales[g] = static_cast<std::int8_t>(block.scales[g] & 15);
    parts.mins[g] = block.scales[g] >> 4;
  }
  for (std::size_t i = 0; i < 256;
       ++i)  // 32 bytes hold 128 codes: byte l has codes l, l + 32, l + 64, l + 96
    parts.codes[i] = (block.codes[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
}

void quantize_q2_k(const float* x, const float* importance, std::byte* bytes) {
  Q2KBlock block{};
  const SuperAffine rounded =
      round_super_affine(x, importance, 16, 15, false,
                         {.top = 3, .first = -0.5F, .step = 0.1F, .count = 15, .absolute_error = true});
  block.d = rounded.d;
  block.dmin = rounded.dmin;
  for (std::size_t g = 0; g < 16; ++g)
    block.scales[g] = static_cast<std::uint8_t>(rounded.scales[g] | (rounded.mins[g] << 4));
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& byte = block.codes[i / 128 * 32 + i % 32];
    byte = static_cast<std::uint8_t>(byte | (rounded.codes[i] << (2 * (i / 32 % 4))));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ2_K{.name = "Q2_K",
                        .gguf_type = 10,
                        .elements = 256,
                        .bytes = sizeof(Q2KBlock),
                        .group = 16,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack_q2_k,
                        .quantize = quantize_q2_k};

}  // namespace ingot::quant::blocks
