#include <algorithm>
#include <cmath>

#include "ingot/quant/blocks/blocks.h"

namespace ingot::quant::blocks {
namespace {

struct Q80Block {
  std::uint16_t d;  // f16
  std::int8_t codes[32];
};
static_assert(sizeof(Q80Block) == 34);

void unpack_q8_0(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q80Block>(bytes);
  set_flat(parts, to_float(block.d));
  for (std::size_t i = 0; i < 32; ++i) parts.codes[i] = static_cast<std::uint8_t>(block.codes[i] + 128);
}

void quantize_q8_0(const float* x, const float* /*importance*/, std::byte* bytes) {
  float top = 0;
  for (int i = 0; i < 32; ++i) top = std::max(top, std::abs(x[i]));
  const float d = top / 127, inverse = d > 0 ? 1 / d : 0;
  Q80Block block{.d = to_half(d), .codes = {}};
  // The codes are those of the unrounded scale, as in ggml.
  for (int i = 0; i < 32; ++i) block.codes[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ8_0{.name = "Q8_0",
                        .gguf_type = 8,
                        .elements = 32,
                        .bytes = sizeof(Q80Block),
                        .group = 32,
                        .zero = 128,
                        .has_min = false,
                        .unpack = unpack_q8_0,
                        .quantize = quantize_q8_0};

}  // namespace ingot::quant::blocks
