#pragma once

#include <array>
#include <cstdint>

namespace ingot {

/// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a counter-based
/// generator. The same (key, counter) gives the same four words on every machine and thread count.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Names one stream of random numbers: `seed` of the run, `stream` of what draws (a step, a layer,
/// a parameter). Element i of the stream is a pure function of (seed, stream, i).
struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  /// Four words for block `block` of the stream.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t block) const {
    return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
};

/// Uniform in [0, 1) with 24 bits.
constexpr float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24F; }

/// A sequential reader of one stream, for code that draws one number after another (shuffles, samplers).
/// Its whole state is (key, position), so saving it is saving two integers.
class Rng {
 public:
  Rng() = default;
  explicit Rng(RngKey key, std::uint64_t position = 0) : key_(key), position_(position) {}
  explicit Rng(std::uint64_t seed) : key_{seed, 0} {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// Uniform in [0, 1): 24 bits as float, 53 as double.
  float uniform() { return uniform_from_bits(next_u32()); }
  double uniform_double();
  /// Standard normal (Box-Muller, in double).
  double normal();
  /// Uniform in [0, n), without modulo bias. n > 0.
  std::uint64_t below(std::uint64_t n);

  RngKey key() const { return key_; }
  std::uint64_t position() const { return position_; }

 private:
  RngKey key_;
  std::uint64_t position_ = 0;  // in 32-bit words
  std::array<std::uint32_t, 4> words_{};
  std::uint64_t words_block_ = ~std::uint64_t{0};
};

/// Mixes a value into a stream id (splitmix64 finalizer), to derive streams from names and indices.
constexpr std::uint64_t mix_stream(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9E3779B97F4A7C15 * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace ingot
