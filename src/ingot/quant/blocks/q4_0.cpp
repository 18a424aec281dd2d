#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Block {
  std::uint16_t d;  // f16
  std::uint8_t codes[16];
};
static_assert(sizeof(Block) == 18);

void unpack(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Block>(bytes);
  set_flat(parts, to_float(block.d));
  unpack_nibbles(block.codes, parts.codes.data());
}

void quantize(const float* x, std::byte* bytes) {
  std::uint8_t codes[32];
  Block block{.d = to_half(round_symmetric(x, 15, codes)), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ4_0{.name = "Q4_0",
                        .gguf_type = 2,
                        .elements = 32,
                        .bytes = sizeof(Block),
                        .group = 32,
                        .zero = 8,
                        .has_min = false,
                        .unpack = unpack,
                        .quantize = quantize};

}  // namespace ingot::quant::blocks
