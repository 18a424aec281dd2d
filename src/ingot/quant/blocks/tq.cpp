#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "ingot/quant/blocks/blocks.h"

// Ternary weights: −1, 0, 1 times one scale for 256.
namespace ingot::quant::blocks {
namespace {

constexpr int kTernaryZero = 1;

// Where a code lies: digit `digit` of byte `byte`.
struct Digit {
  std::size_t byte, digit;
};

// TQ1_0: five digits of base 3 in a byte, most significant first, as a fraction of 256 (rounded up). Digits
// of 32 bytes make 160 weights, then those of 16 bytes 80, then four each of 4 bytes 16.
struct Tq1Block {
  std::uint8_t codes[52];
  std::uint16_t d;  // f16
};
static_assert(sizeof(Tq1Block) == 54);
constexpr std::array<std::uint8_t, 5> kPowersOf3{1, 3, 9, 27, 81};

constexpr Digit position_of(std::size_t weight) {
  if (weight < 160) return {weight % 32, weight / 32};
  if (weight < 240) return {32 + (weight - 160) % 16, (weight - 160) / 16};
  return {48 + (weight - 240) % 4, (weight - 240) / 4};
}

void unpack_tq1_0(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Tq1Block>(bytes);
  set_flat(parts, to_float(block.d));
  for (std::size_t i = 0; i < 256; ++i) {
    const Digit at = position_of(i);
    const auto rest = static_cast<std::uint8_t>(block.codes[at.byte] * kPowersOf3[at.digit]);
    parts.codes[i] = static_cast<std::uint8_t>(rest * 3U >> 8U);
  }
}

// Codes of 256 weights; returns the scale as the block holds it.
std::uint16_t round_ternary(const float* x, std::array<std::uint8_t, 256>& codes) {
  float top = 0;
  for (std::size_t i = 0; i < 256; ++i) top = std::max(top, std::abs(x[i]));
  const float inverse = top > 0 ? 1 / top : 0;
  for (std::size_t i = 0; i < 256; ++i)
    codes[i] = static_cast<std::uint8_t>(std::lround(x[i] * inverse) + kTernaryZero);
  return to_half(top);
}

void quantize_tq1_0(const float* x, const float* /*importance*/, std::byte* bytes) {
  std::array<std::uint8_t, 256> codes;
  Tq1Block block{.codes = {}, .d = round_ternary(x, codes)};
  std::array<unsigned, 52> numbers{};
  for (std::size_t i = 0; i < 256; ++i) {
    const Digit at = position_of(i);
    numbers[at.byte] += unsigned{codes[i]} * kPowersOf3[4 - at.digit];
  }
  for (std::size_t i = 0; i < 52; ++i)
    block.codes[i] = static_cast<std::uint8_t>((numbers[i] * 256 + 242) / 243);
  store(block, bytes);
}

struct Tq2Block {
  std::uint8_t codes[64];  // 32 bytes hold 128 weights: byte l those of l, l + 32, l + 64, l + 96
  std::uint16_t d;         // f16
};
static_assert(sizeof(Tq2Block) == 66);

void unpack_tq2_0(const std::byte* bytes, BlockParts& parts) {
  const auto block = load<Tq2Block>(bytes);
  set_flat(parts, to_float(block.d));
  for (std::size_t i = 0; i < 256; ++i)
    parts.codes[i] = block.codes[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
}

void quantize_tq2_0(const float* x, const float* /*importance*/, std::byte* bytes) {
  std::array<std::uint8_t, 256> codes;
  Tq2Block block{.codes = {}, .d = round_ternary(x, codes)};
  for (std::size_t i = 0; i < 256; ++i) {
    std::uint8_t& byte = block.codes[i / 128 * 32 + i % 32];
    byte = static_cast<std::uint8_t>(byte | codes[i] << (2 * (i / 32 % 4)));
  }
  store(block, bytes);
}

}  // namespace

const BlockFormat kTq1{.name = "TQ1_0",
                       .gguf_type = 34,
                       .elements = 256,
                       .bytes = sizeof(Tq1Block),
                       .group = 256,
                       .zero = kTernaryZero,
                       .has_min = false,
                       .unpack = unpack_tq1_0,
                       .quantize = quantize_tq1_0};
const BlockFormat kTq2{.name = "TQ2_0",
                       .gguf_type = 35,
                       .elements = 256,
                       .bytes = sizeof(Tq2Block),
                       .group = 256,
                       .zero = kTernaryZero,
                       .has_min = false,
                       .unpack = unpack_tq2_0,
                       .quantize = quantize_tq2_0};

}  // namespace ingot::quant::blocks
