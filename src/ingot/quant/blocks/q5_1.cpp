#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Q51Block {
  std::uint16_t d, m;  // f16
  std::uint32_t high;  // the fifth bits
  std::uint8_t codes[16];
};
static_assert(sizeof(Q51Block) == 24);

void unpack_q5_1(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q51Block>(bytes);
  set_flat(parts, to_float(block.d), to_float(block.m));
  unpack_nibbles(block.codes, parts.codes.data());
  add_fifth_bits(block.high, parts.codes.data());
}

void quantize_q5_1(const float* x, const float* importance, std::byte* bytes) {
  std::uint8_t codes[32];
  const Affine affine = round_affine(x, importance, 31, codes);
  Q51Block block{
      .d = to_half(affine.scale), .m = to_half(affine.minimum), .high = fifth_bits(codes), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ5_1{.name = "Q5_1",
                        .gguf_type = 7,
                        .elements = 32,
                        .bytes = sizeof(Q51Block),
                        .group = 32,
                        .zero = 0,
                        .has_min = true,
                        .unpack = unpack_q5_1,
                        .quantize = quantize_q5_1};

}  // namespace ingot::quant::blocks
