#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ingot/mahjong/tile.h"

namespace ingot::mahjong {

namespace detail {
constexpr std::array<std::uint32_t, kKinds> make_weights() {
  std::array<std::uint32_t, kKinds> weights{};
  for (std::size_t kind = 0; kind < kKinds; ++kind) weights[kind] = kind % 9 == 0 ? 1 : weights[kind - 1] * 5;
  return weights;
}
inline constexpr auto kWeights = make_weights();
}  // namespace detail

/// A number from 0 to 4 for each kind, as three planes of bits: what is asked of all kinds at once takes a
/// few instructions, and reading what was just written does not wait, as a wide read after a write of one
/// byte does.
class KindCounts {
 public:
  int operator[](std::size_t kind) const {
    return static_cast<int>((ones_ >> kind & 1) | (twos_ >> kind & 1) << 1 | (fours_ >> kind & 1) << 2);
  }
  void add(Kind kind) {
    const KindSet one = bit(kind), two = ones_ & one, four = twos_ & two;
    ones_ ^= one;
    twos_ ^= two;
    fours_ ^= four;
  }
  void remove(Kind kind) {
    const KindSet one = bit(kind), two = ~ones_ & one, four = ~twos_ & two;
    ones_ ^= one;
    twos_ ^= two;
    fours_ ^= four;
  }
  void set(Kind kind, int count) {
    const auto put = [&](KindSet& plane, int value) {
      plane = (plane & ~bit(kind)) | static_cast<KindSet>(value & 1) << kind;
    };
    put(ones_, count);
    put(twos_, count >> 1);
    put(fours_, count >> 2);
  }
  /// Kinds of which there is at least one; two; three; four.
  KindSet kinds() const { return ones_ | twos_ | fours_; }
  KindSet pairs() const { return twos_ | fours_; }
  KindSet triplets() const { return (ones_ & twos_) | fours_; }
  KindSet quads() const { return fours_; }
  friend KindCounts operator+(const KindCounts& a, const KindCounts& b) {
    KindCounts sum;
    const KindSet two = a.ones_ & b.ones_, four = (a.twos_ & b.twos_) | ((a.twos_ | b.twos_) & two);
    sum.ones_ = a.ones_ ^ b.ones_;
    sum.twos_ = a.twos_ ^ b.twos_ ^ two;
    sum.fours_ = a.fours_ ^ b.fours_ ^ four;
    return sum;
  }
  friend bool operator==(const KindCounts&, const KindCounts&) = default;

 private:
  KindSet ones_ = 0, twos_ = 0, fours_ = 0;
};

/// The concealed tiles of one player: how many of each kind, which of the fives are red, and, kept up with
/// them, each suit's counts read as a number in base 5, which is the row of the shanten tables.
struct Hand {
  KindCounts count;
  std::array<std::uint32_t, 4> suit{};
  std::array<std::uint8_t, 3> red{};
  std::uint8_t size = 0;

  void add_kind(Kind kind) {
    count.add(kind);
    ++size;
    suit[static_cast<std::size_t>(suit_of(kind))] += detail::kWeights[kind];
  }
  void remove_kind(Kind kind) {
    count.remove(kind);
    --size;
    suit[static_cast<std::size_t>(suit_of(kind))] -= detail::kWeights[kind];
  }
  void add(Tile tile) {
    add_kind(kind_of(tile));
    if (is_red(tile)) ++red[tile - 34U];
  }
  void remove(Tile tile) {
    remove_kind(kind_of(tile));
    if (is_red(tile)) --red[tile - 34U];
  }
  /// How many of exactly this tile: of a five, the red ones and the plain ones apart.
  int count_of(Tile tile) const {
    if (is_red(tile)) return red[tile - 34U];
    return is_five(tile) ? count[tile] - red[tile / 9U] : count[tile];
  }
  bool has(Tile tile) const { return count_of(tile) > 0; }
  std::vector<Tile> tiles() const;
  friend bool operator==(const Hand&, const Hand&) = default;
};

/// Throws InvalidHand for five of a kind or more than 14 tiles.
Hand make_hand(std::span<const Tile> tiles);
Hand make_hand(std::string_view text);

}  // namespace ingot::mahjong
