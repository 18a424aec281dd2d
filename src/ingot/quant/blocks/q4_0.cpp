#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Q40Block {
  std::uint16_t d;  // f16
  std::uint8_t codes[16];
};
static_assert(sizeof(Q40Block) == 18);

void unpack_q4_0(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q40Block>(bytes);
  set_flat(parts, to_float(block.d));
  unpack_nibbles(block.codes, parts.codes.data());
}

void quantize_q4_0(const float* x, const float* importance, std::byte* bytes) {
  std::uint8_t codes[32];
  Q40Block block{.d = to_half(round_symmetric(x, importance, 15, codes)), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ4_0{.name = "Q4_0",
                        .gguf_type = 2,
                        .elements = 32,
                        .bytes = sizeof(Q40Block),
                        .group = 32,
                        .zero = 8,
                        .has_min = false,
                        .unpack = unpack_q4_0,
                        .quantize = quantize_q4_0};

}  // namespace ingot::quant::blocks
