#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

struct Q50Block {
  std::uint16_t d;        // f16
  std::uint16_t high[2];  // the fifth bits, not aligned for 32
  std::uint8_t codes[16];
};
static_assert(sizeof(Q50Block) == 22);

void unpack_q5_0(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Q50Block>(bytes);
  set_flat(parts, to_float(block.d));
  unpack_nibbles(block.codes, parts.codes.data());
  add_fifth_bits(block.high[0] | static_cast<std::uint32_t>(block.high[1]) << 16, parts.codes.data());
}

void quantize_q5_0(const float* x, const float* importance, std::byte* bytes) {
  std::uint8_t codes[32];
  Q50Block block{.d = to_half(round_symmetric(x, importance, 31, codes)), .high = {}, .codes = {}};
  const std::uint32_t bits = fifth_bits(codes);
  block.high[0] = static_cast<std::uint16_t>(bits);
  block.high[1] = static_cast<std::uint16_t>(bits >> 16);
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kQ5_0{.name = "Q5_0",
                        .gguf_type = 6,
                        .elements = 32,
                        .bytes = sizeof(Q50Block),
                        .group = 32,
                        .zero = 16,
                        .has_min = false,
                        .unpack = unpack_q5_0,
                        .quantize = quantize_q5_0};

}  // namespace ingot::quant::blocks
