#pragma once

#include <array>
#include <cstdint>

namespace ingot::grammar {

/// A set of bytes.
struct ByteSet {
  std::array<std::uint64_t, 4> words{};

  static ByteSet of(unsigned char byte) { return range(byte, byte); }
  static ByteSet range(unsigned first, unsigned last) {
    ByteSet set;
    for (unsigned b = first; b <= last; ++b) set.add(static_cast<unsigned char>(b));
    return set;
  }
  void add(unsigned char byte) { words[byte >> 6U] |= std::uint64_t{1} << (byte & 63U); }
  bool has(unsigned char byte) const { return ((words[byte >> 6U] >> (byte & 63U)) & 1U) != 0; }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  ByteSet& operator|=(const ByteSet& other) {
    for (std::size_t i = 0; i < 4; ++i) words[i] |= other.words[i];
    return *this;
  }
  bool operator==(const ByteSet&) const = default;
};

}  // namespace ingot::grammar
