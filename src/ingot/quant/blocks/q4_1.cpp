#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Q41Block {
  std::uint16_t d, m;  // f16
  std::uint8_t codes[16];
};
static_assert(sizeof(Q41Block) == 20);

void unpack_q4_1(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q41Block>(bytes);
  set_flat(parts, to_float(block.d), to_float(block.m));
  unpack_nibbles(block.codes, parts.codes.data());
}

void quantize_q4_1(const float* x, const float* importance, std::byte* bytes) {
  std::uint8_t codes[32];
  const Affine affine = round_affine(x, importance, 15, codes);
  Q41Block block{.d = to_half(affine.scale), .m = to_half(affine.minimum), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ4_1{.name = "Q4_1",
                        .gguf_type = 3,
                        .elements = 32,
                        .bytes = sizeof(Q41Block),
                        .group = 32,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack_q4_1,
                        .quantize = quantize_q4_1};

}  // namespace ingot::quant::blocks
