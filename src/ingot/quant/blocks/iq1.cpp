#include <array>
#include <cstdint>

#include "ingot/quant/blocks/blocks.h"
#include "ingot/quant/blocks/iq_grids.h"
#include "ingot/quant/blocks/iq_signs.h"

// Weights of less than two bits: eight neighbours are a point of −1, 0, 1, to which ⅛ is added or from which
// it is taken. Here d is an eighth of the file's, so that codes are whole numbers.
namespace ingot::quant::blocks {
namespace {

constexpr float kIq1Unit = 0.125F;
constexpr std::array<std::int8_t, 6> kIq1Levels{-9, -7, -1, 1, 7, 9};

void put_iq1(std::size_t index, bool minus, std::uint8_t* codes) {
  const std::uint16_t point = kIq1Grid[index];
  for (std::size_t i = 0; i < 8; ++i) {
    const int value = static_cast<int>((point >> (2 * i)) & 3U) - 1;
    codes[i] = static_cast<std::uint8_t>(kSignedZero + 8 * value + (minus ? -1 : 1));
  }
}

struct Iq1SBlock {
  std::uint16_t d;  // f16
  std::uint8_t points[32];
  std::uint16_t high[8];  // three more bits of four points, 3 of the scale, the sign of what is added
};
static_assert(sizeof(Iq1SBlock) == 50);

void unpack_iq1_s(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq1SBlock>(bytes);
  parts.d = to_float(block.d) * kIq1Unit;
  for (std::size_t g = 0; g < 8; ++g) {
    const unsigned high = block.high[g];
    parts.scales[g] = static_cast<std::int8_t>(2 * (high >> 12U & 7U) + 1);
    for (std::size_t i = 0; i < 4; ++i)
      put_iq1(block.points[4 * g + i] | (high >> (3 * i) & 7U) << 8U, (high & 0x8000U) != 0,
              parts.codes.data() + 32 * g + 8 * i);
  }
}

struct Iq1MBlock {
  std::uint8_t points[32];
  std::uint8_t high[16];   // of two points each: three more bits, and the sign of what is added
  std::uint8_t scales[8];  // four words: four scales of 3 bits, and 4 bits of d
};
static_assert(sizeof(Iq1MBlock) == 56);

void unpack_iq1_m(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Iq1MBlock>(bytes);
  std::array<std::uint16_t, 4> words{};
  std::memcpy(words.data(), block.scales, sizeof block.scales);
  unsigned d = 0;
  for (std::size_t i = 0; i < 4; ++i) d |= unsigned{words[i]} >> 12U << (4 * i);
  parts.d = to_float(static_cast<std::uint16_t>(d)) * kIq1Unit;
  for (std::size_t g = 0; g < 16; ++g)
    parts.scales[g] = static_cast<std::int8_t>(2 * (words[g / 4] >> (3 * (g % 4)) & 7U) + 1);
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned high = unsigned{block.high[i / 2]} >> (4 * (i % 2)) & 15U;
    put_iq1(block.points[i] | (high & 7U) << 8U, (high & 8U) != 0, parts.codes.data() + 8 * i);
  }
}

}  // namespace

const BlockFormat kIq1S{.name = "IQ1_S",
                        .gguf_type = 19,
                        .elements = 256,
                        .bytes = sizeof(Iq1SBlock),
                        .group = 32,
                        .zero = kSignedZero,
                        .has_min = false,
                        .levels = kIq1Levels,
                        .unit = kIq1Unit,
                        .unpack = unpack_iq1_s,
                        .quantize = nullptr};
const BlockFormat kIq1M{.name = "IQ1_M",
                        .gguf_type = 29,
                        .elements = 256,
                        .bytes = sizeof(Iq1MBlock),
                        .group = 16,
                        .zero = kSignedZero,
                        .has_min = false,
                        .levels = kIq1Levels,
                        .unit = kIq1Unit,
                        .unpack = unpack_iq1_m,
                        .quantize = nullptr};

}  // namespace ingot::quant::blocks
