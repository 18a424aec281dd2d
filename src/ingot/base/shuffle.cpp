#include "ingot/base/shuffle.h"

#include <bit>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot {
namespace {

constexpr std::uint64_t kShuffleStream = 0x5348554646;  // keeps the order apart from all other random numbers
// Four rounds already make a pseudo-random permutation of large sets (Luby and Rackoff 1988); small sets need
// more until every order is about as likely as any other.
constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
    : n_(n), seed_(seed), stream_(mix_stream(kShuffleStream, epoch)), half_bits_(1) {
  INGOT_ASSERT(n > 0 && n <= std::uint64_t{1} << 62);
  if (n > 4) half_bits_ = static_cast<unsigned>(std::bit_width(n - 1) + 1) / 2;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t word = RngKey{seed_, stream_}.block(round << 32 | right)[0];
    left = (left ^ word) & mask;
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  INGOT_ASSERT(i < n_);
  do {
    i = encrypt(i);
  } while (i >= n_);
  return i;
}

}  // namespace ingot
