#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Block {
  std::uint16_t d, m;  // f16
  std::uint8_t codes[16];
};
static_assert(sizeof(Block) == 20);

void unpack(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Block>(bytes);
  set_flat(parts, to_float(block.d), to_float(block.m));
  unpack_nibbles(block.codes, parts.codes.data());
}

void quantize(const float* x, std::byte* bytes) {
  std::uint8_t codes[32];
  const Affine affine = round_affine(x, 15, codes);
  Block block{.d = to_half(affine.scale), .m = to_half(affine.minimum), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ4_1{.name = "Q4_1",
                        .gguf_type = 3,
                        .elements = 32,
                        .bytes = sizeof(Block),
                        .group = 32,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack,
                        .quantize = quantize};

}  // namespace ingot::quant::blocks
