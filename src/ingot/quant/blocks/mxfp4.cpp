#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ingot/kernels/packed.h"
#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/nibbles.h"

namespace ingot::quant::blocks {
namespace {

// OCP Microscaling FP4: 32 numbers of E2M1 with one power of two.
struct MxFp4Block {
  std::uint8_t exponent;  // E8M0
  std::uint8_t codes[16];
};
static_assert(sizeof(MxFp4Block) == 17);

constexpr int kMxFp4Zero = 16, kMxFp4Bias = 128;
constexpr const auto& kDoubled = kernels::kMxFp4Values;

void unpack_mxfp4(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<MxFp4Block>(bytes);
  set_flat(parts, std::ldexp(1.0F, block.exponent - kMxFp4Bias));
  unpack_nibbles(block.codes, parts.codes.data());
  for (std::size_t i = 0; i < 32; ++i)
    parts.codes[i] = static_cast<std::uint8_t>(kMxFp4Zero + kDoubled[parts.codes[i]]);
}

// The nearest, the smaller one of two that are as near.
std::uint8_t nearest(float x) {
  const float magnitude = std::abs(x);
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 8; ++code)
    if (std::abs(magnitude - static_cast<float>(kDoubled[code])) <
        std::abs(magnitude - static_cast<float>(kDoubled[best])))
      best = code;
  return static_cast<std::uint8_t>(x < 0 && best > 0 ? best + 8 : best);
}

void quantize_mxfp4(const float* x, const float* /*importance*/, std::byte* bytes) {
  float top = 0;
  for (std::size_t i = 0; i < 32; ++i) top = std::max(top, std::abs(x[i]));
  // The largest magnitude is between 4 and 8 times the power of two, or cut to 6 times.
  const int exponent = top > 0 ? std::clamp(std::ilogb(top) - 2 + 127, 0, 254) : 0;
  const float d = std::ldexp(1.0F, exponent - kMxFp4Bias);
  std::uint8_t codes[32];
  for (std::size_t i = 0; i < 32; ++i) codes[i] = nearest(x[i] / d);
  MxFp4Block block{.exponent = static_cast<std::uint8_t>(exponent), .codes = {}};
  pack_nibbles(codes, block.codes);
  store(block, bytes);
}

}  // namespace

const BlockFormat kMxFp4{.name = "MXFP4",
                         .gguf_type = 39,
                         .elements = 32,
                         .bytes = sizeof(MxFp4Block),
                         .group = 32,
                         .zero = kMxFp4Zero,
                         .has_min = false,
                         .levels = kDoubled,
                         .unpack = unpack_mxfp4,
                         .quantize = quantize_mxfp4};

}  // namespace ingot::quant::blocks
