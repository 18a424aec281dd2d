#include <array>
#include <cstdint>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/iq_grids.h"
#include "ingot/quant/blocks/iq_signs.h"

// Weights of three bits: four neighbours are a point of a grid, with signs apart.
namespace ingot::quant::blocks {
namespace {

constexpr float kIq3XxsUnit = 0.25F;
constexpr std::array<std::int8_t, 16> kIq3XxsLevels{-62, -52, -44, -36, -28, -20, -12, -4,
                                                    4,   12,  20,  28,  36,  44,  52,  62};
constexpr std::array<std::int8_t, 16> kIq3SLevels{-15, -13, -11, -9, -7, -5, -3, -1,
                                                  1,   3,   5,   7,  9,  11, 13, 15};

void put_iq3(const std::array<std::int8_t, 8>& values, std::uint16_t point, unsigned signs,
             std::uint8_t* codes) {
  for (std::size_t i = 0; i < 4; ++i)
    codes[i] = signed_code(values[(point >> (3 * i)) & 7U], (signs >> i & 1U) != 0);
}

struct Iq3XxsBlock {
  std::uint16_t d;  // f16
  std::uint8_t points[64];
  std::uint8_t signs_and_scales[32];  // words of 32 weights: four times 7 bits of signs, 4 of the scale
};
static_assert(sizeof(Iq3XxsBlock) == 98);

// The format has d · (½ + scale) / 2.
void unpack_iq3_xxs(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq3XxsBlock>(bytes);
  parts.d = to_float(block.d) * kIq3XxsUnit;
  for (std::size_t g = 0; g < 8; ++g) {
    std::uint32_t word = 0;
    std::memcpy(&word, block.signs_and_scales + 4 * g, 4);
    parts.scales[g] = static_cast<std::int8_t>(2 * (word >> 28U) + 1);
    for (std::size_t i = 0; i < 8; ++i)
      put_iq3(kIq3XxsValues, kIq3XxsGrid[block.points[8 * g + i]],
              eight_signs(word >> (7 * (i / 2))) >> (4 * (i % 2)), parts.codes.data() + 32 * g + 4 * i);
  }
}

struct Iq3SBlock {
  std::uint16_t d;  // f16
  std::uint8_t points[64];
  std::uint8_t high[8];  // a ninth bit for each point
  std::uint8_t signs[32];
  std::uint8_t scales[4];  // two of 4 bits
};
static_assert(sizeof(Iq3SBlock) == 110);

void unpack_iq3_s(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq3SBlock>(bytes);
  parts.d = to_float(block.d);
  for (std::size_t g = 0; g < 8; ++g) {
    const unsigned scale = block.scales[g / 2] >> (4 * (g % 2)) & 15U;
    parts.scales[g] = static_cast<std::int8_t>(2 * scale + 1);
    for (std::size_t i = 0; i < 8; ++i) {
      const unsigned high = block.high[g] >> i & 1U;
      put_iq3(kIq3SValues, kIq3SGrid[block.points[8 * g + i] | high << 8U],
              unsigned{block.signs[4 * g + i / 2]} >> (4 * (i % 2)), parts.codes.data() + 32 * g + 4 * i);
    }
  }
}

}  // namespace

const BlockFormat kIq3Xxs{.name = "IQ3_XXS",
                          .gguf_type = 18,
                          .elements = 256,
                          .bytes = sizeof(Iq3XxsBlock),
                          .group = 32,
                          .zero = kSignedZero,
                          .has_min = false,
                          .levels = kIq3XxsLevels,
                          .unit = kIq3XxsUnit,
                          .unpack = unpack_iq3_xxs,
                          .quantize = nullptr};
const BlockFormat kIq3S{.name = "IQ3_S",
                        .gguf_type = 21,
                        .elements = 256,
                        .bytes = sizeof(Iq3SBlock),
                        .group = 32,
                        .zero = kSignedZero,
                        .has_min = false,
                        .levels = kIq3SLevels,
                        .unpack = unpack_iq3_s,
                        .quantize = nullptr};

}  // namespace ingot::quant::blocks
