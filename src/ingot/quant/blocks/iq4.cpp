#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ingot/kernels/packed.h"
#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/iq_signs.h"
#include "ingot/quant/blocks/nibbles.h"
#include "ingot/quant/blocks/search.h"

// Weights of four bits whose codes stand for numbers that are spread like weights are.
namespace ingot::quant::blocks {
namespace {

constexpr const auto& kIq4Levels = kernels::kIq4NlValues;

void put_iq4(const std::uint8_t* nibbles, std::uint8_t* codes) {
  unpack_nibbles(nibbles, codes);
  for (std::size_t i = 0; i < 32; ++i)
    codes[i] = static_cast<std::uint8_t>(kSignedZero + kIq4Levels[codes[i]]);
}

// Codes of 32 weights for a scale, as a block holds them.
void round_iq4(const float* x, float scale, std::uint8_t* nibbles) {
  std::array<std::uint8_t, 32> codes;
  for (std::size_t i = 0; i < 32; ++i) codes[i] = nearest_level(scale != 0 ? x[i] / scale : 0, kIq4Levels);
  pack_nibbles(codes.data(), nibbles);
}

struct Iq4NlBlock {
  std::uint16_t d;  // f16
  std::uint8_t codes[16];
};
static_assert(sizeof(Iq4NlBlock) == 18);

void unpack_iq4_nl(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq4NlBlock>(bytes);
  set_flat(parts, to_float(block.d));
  put_iq4(block.codes, parts.codes.data());
}

void quantize_iq4_nl(const float* x, const float* importance, std::byte* bytes) {
  std::array<float, 32> weights;
  for (std::size_t i = 0; i < 32; ++i) weights[i] = x[i] * x[i];
  if (importance != nullptr) weigh({x, 32}, importance, mean_square({x, 32}), weights.data());
  Iq4NlBlock block{.d = to_half(fit_levels({x, 32}, weights, kIq4Levels)), .codes = {}};
  round_iq4(x, to_float(block.d), block.codes);
  store(block, bytes);
}

struct Iq4XsBlock {
  std::uint16_t d;           // f16
  std::uint16_t scale_high;  // two upper bits of eight scales
  std::uint8_t scale_low[4];
  std::uint8_t codes[128];
};
static_assert(sizeof(Iq4XsBlock) == 136);
constexpr int kIq4ScaleZero = 32;  // scales have 6 bits

void unpack_iq4_xs(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq4XsBlock>(bytes);
  parts.d = to_float(block.d);
  for (std::size_t g = 0; g < 8; ++g) {
    const int low = block.scale_low[g / 2] >> (4 * (g % 2)) & 15;
    const int high = block.scale_high >> (2 * g) & 3;
    parts.scales[g] = static_cast<std::int8_t>((low | high << 4) - kIq4ScaleZero);
    put_iq4(block.codes + 16 * g, parts.codes.data() + 32 * g);
  }
}

void quantize_iq4_xs(const float* x, const float* importance, std::byte* bytes) {
  const float spread = 2 * mean_square({x, 256});
  std::array<float, 8> fits{};
  for (std::size_t g = 0; g < 8; ++g) {
    std::array<float, 32> weights;
    for (std::size_t i = 0; i < 32; ++i) weights[i] = std::sqrt(spread + x[32 * g + i] * x[32 * g + i]);
    if (importance != nullptr) weigh({x + 32 * g, 32}, importance + 32 * g, spread, weights.data());
    fits[g] = fit_levels({x + 32 * g, 32}, weights, kIq4Levels);
  }
  const float extreme =
      *std::max_element(fits.begin(), fits.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  Iq4XsBlock block{.d = to_half(extreme / static_cast<float>(-kIq4ScaleZero)),
                   .scale_high = 0,
                   .scale_low = {},
                   .codes = {}};
  const float d = to_float(block.d);
  for (std::size_t g = 0; g < 8; ++g) {
    const int scale = nearest_code(fits[g], d, -kIq4ScaleZero, kIq4ScaleZero - 1),
              stored = scale + kIq4ScaleZero;
    block.scale_low[g / 2] =
        static_cast<std::uint8_t>(block.scale_low[g / 2] | (stored & 15) << (4 * (g % 2)));
    block.scale_high = static_cast<std::uint16_t>(block.scale_high | stored >> 4 << (2 * g));
    round_iq4(x + 32 * g, d * static_cast<float>(scale), block.codes + 16 * g);
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kIq4Nl{.name = "IQ4_NL",
                         .gguf_type = 20,
                         .elements = 32,
                         .bytes = sizeof(Iq4NlBlock),
                         .group = 32,
                         .zero = kSignedZero,
                         .has_min = false,
                         .levels = kIq4Levels,
                         .unpack = unpack_iq4_nl,
                         .quantize = quantize_iq4_nl};
const BlockFormat kIq4Xs{.name = "IQ4_XS",
                         .gguf_type = 23,
                         .elements = 256,
                         .bytes = sizeof(Iq4XsBlock),
                         .group = 32,
                         .zero = kSignedZero,
                         .has_min = false,
                         .levels = kIq4Levels,
                         .unpack = unpack_iq4_xs,
                         .quantize = quantize_iq4_xs};

}  // namespace ingot::quant::blocks
