#include "ingot/base/rng.h"

#include <cmath>
#include <numbers>

#include "ingot/base/error.h"

namespace ingot {

std::uint32_t Rng::next_u32() {
  const std::uint64_t block = position_ / 4;
  if (block != words_block_) {
    words_ = key_.block(block);
    words_block_ = block;
  }
  return words_[position_++ % 4];
}

std::uint64_t Rng::next_u64() {
  const std::uint64_t low = next_u32();
  return low | (static_cast<std::uint64_t>(next_u32()) << 32);
}

double Rng::uniform_double() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));  // 1 - u: never log(0)
  return radius * std::cos(2.0 * std::numbers::pi * uniform_double());
}

std::uint64_t Rng::below(std::uint64_t n) {
  INGOT_ASSERT(n > 0);
  const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % n;  // largest multiple of n that fits
  std::uint64_t draw = next_u64();
  while (draw >= limit) draw = next_u64();
  return draw % n;
}

}  // namespace ingot
