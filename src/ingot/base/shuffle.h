#pragma once

#include <cstdint>

namespace ingot {

/// A pseudo-random order of 0 .. n-1 that is never written down: element i is a pure function of
/// (n, seed, epoch, i), so any position of any epoch can be entered at once. A Feistel network over the next
/// power of four with Philox as its round function, walked until it lands below n (Black and Rogaway 2002,
/// "Ciphers with arbitrary finite domains").
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);
  /// i < n.
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t n_, seed_, stream_;
  unsigned half_bits_;
};

}  // namespace ingot
