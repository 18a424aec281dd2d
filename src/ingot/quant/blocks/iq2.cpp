#include <array>
#include <cstdint>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/iq_grids.h"
#include "ingot/quant/blocks/iq_signs.h"

// Weights of two bits: eight neighbours are a point of a grid, with signs apart. Their scales are odd, as the
// formats have d · (½ + scale) / 4 = d/8 · (2 · scale + 1).
namespace ingot::quant::blocks {
namespace {

constexpr float kIq2Unit = 0.125F;
constexpr std::array<std::int8_t, 6> kIq2Levels{-43, -25, -8, 8, 25, 43};

// IQ2_XXS: an f16 d, and eight of these.
struct Iq2XxsGroup {
  std::uint8_t points[4];
  std::uint32_t signs_and_scale;  // four times 7 bits of signs, 4 of the scale
};
static_assert(sizeof(Iq2XxsGroup) == 8);

void put_iq2(std::uint16_t point, std::uint8_t signs, std::uint8_t* codes) {
  for (std::size_t i = 0; i < 8; ++i)
    codes[i] = signed_code(kIq2Values[(point >> (2 * i)) & 3U], (signs >> i & 1U) != 0);
}

std::int8_t odd_scale(int scale) { return static_cast<std::int8_t>(2 * scale + 1); }

void unpack_iq2_xxs(const std::byte* bytes, BlockParts& parts) {
  parts.d = to_float(load<std::uint16_t>(bytes)) * kIq2Unit;
  for (std::size_t g = 0; g < 8; ++g) {
    const auto group = load<Iq2XxsGroup>(bytes + 2 + 8 * g);
    parts.scales[g] = odd_scale(static_cast<int>(group.signs_and_scale >> 28));
    for (std::size_t i = 0; i < 4; ++i)
      put_iq2(kIq2XxsGrid[group.points[i]], eight_signs(group.signs_and_scale >> (7 * i)),
              parts.codes.data() + 32 * g + 8 * i);
  }
}

struct Iq2XsBlock {
  std::uint16_t d;           // f16
  std::uint16_t points[32];  // 9 bits of the point, 7 of signs
  std::uint8_t scales[8];    // two of 4 bits: of 16 weights each
};
static_assert(sizeof(Iq2XsBlock) == 74);

void set_half_scales(const std::uint8_t* packed, BlockParts& parts) {
  for (std::size_t g = 0; g < 8; ++g) {
    parts.scales[2 * g] = odd_scale(packed[g] & 15);
    parts.scales[2 * g + 1] = odd_scale(packed[g] >> 4);
  }
}

void unpack_iq2_xs(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq2XsBlock>(bytes);
  parts.d = to_float(block.d) * kIq2Unit;
  set_half_scales(block.scales, parts);
  for (std::size_t i = 0; i < 32; ++i)
    put_iq2(kIq2XsGrid[block.points[i] & 511U], eight_signs(block.points[i] >> 9U),
            parts.codes.data() + 8 * i);
}

struct Iq2SBlock {
  std::uint16_t d;  // f16
  std::uint8_t points[32], signs[32];
  std::uint8_t high[8];  // two more bits of four points
  std::uint8_t scales[8];
};
static_assert(sizeof(Iq2SBlock) == 82);

void unpack_iq2_s(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq2SBlock>(bytes);
  parts.d = to_float(block.d) * kIq2Unit;
  set_half_scales(block.scales, parts);
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned high = block.high[i / 4] >> (2 * (i % 4)) & 3U;
    put_iq2(kIq2SGrid[block.points[i] | high << 8], block.signs[i], parts.codes.data() + 8 * i);
  }
}

}  // namespace

const BlockFormat kIq2Xxs{.name = "IQ2_XXS",
                          .gguf_type = 16,
                          .elements = 256,
                          .bytes = 2 + 8 * sizeof(Iq2XxsGroup),
                          .group = 32,
                          .zero = kSignedZero,
                          .has_min = false,
                          .levels = kIq2Levels,
                          .unit = kIq2Unit,
                          .unpack = unpack_iq2_xxs,
                          .quantize = nullptr};
const BlockFormat kIq2Xs{.name = "IQ2_XS",
                         .gguf_type = 17,
                         .elements = 256,
                         .bytes = sizeof(Iq2XsBlock),
                         .group = 16,
                         .zero = kSignedZero,
                         .has_min = false,
                         .levels = kIq2Levels,
                         .unit = kIq2Unit,
                         .unpack = unpack_iq2_xs,
                         .quantize = nullptr};
const BlockFormat kIq2S{.name = "IQ2_S",
                        .gguf_type = 22,
                        .elements = 256,
                        .bytes = sizeof(Iq2SBlock),
                        .group = 16,
                        .zero = kSignedZero,
                        .has_min = false,
                        .levels = kIq2Levels,
                        .unit = kIq2Unit,
                        .unpack = unpack_iq2_s,
                        .quantize = nullptr};

}  // namespace ingot::quant::blocks
