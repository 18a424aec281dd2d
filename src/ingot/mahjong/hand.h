#pragma once

#include <array>
#include <cstdint>
#include <cstring>
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
inline constexpr std::uint64_t kLowBits = 0x0101010101010101;  // of eight bytes
}  // namespace detail

/// The kinds for which `flags`, applied to eight or sixteen counts at a time, sets the lowest bit of the
/// count's byte. Counts stay below 128.
template <class F>
[[gnu::always_inline]] inline KindSet kinds_where(const std::array<std::uint8_t, kKinds>& count, F&& flags) {
  constexpr std::uint64_t kGather =
      0x0102040810204080;  // the lowest bits of eight bytes, times this, are eight bits
  std::uint16_t last;
  std::memcpy(&last, count.data() + 32, 2);
  const KindSet tail = (flags(std::uint64_t{last}) * kGather >> 56) << 32;
#ifdef __SSE2__
  using Words = unsigned long long __attribute__((vector_size(16)));
  using Bytes = char __attribute__((vector_size(16)));
  std::array<Words, 2> counts;
  std::memcpy(counts.data(), count.data(), 32);
  const auto sixteen = [&](Words words) {
    return static_cast<std::uint32_t>(__builtin_ia32_pmovmskb128(reinterpret_cast<Bytes>(flags(words) << 7)));
  };
  return tail | sixteen(counts[0]) | static_cast<KindSet>(sixteen(counts[1])) << 16;
#else
  std::array<std::uint64_t, 4> counts;
  std::memcpy(counts.data(), count.data(), 32);
  KindSet set = tail;
  for (unsigned i = 0; i < 4; ++i) set |= (flags(counts[i]) * kGather >> 56) << (8 * i);
  return set;
#endif
}

/// The concealed tiles of one player: how many of each kind, which of the fives are red, and, kept up with
/// them, each suit's counts read as a number in base 5, which is the row of the shanten tables.
struct Hand {
  std::array<std::uint8_t, kKinds> count{};
  std::array<std::uint8_t, 3> red{};
  std::uint8_t size = 0;
  std::array<std::uint32_t, 4> suit{};

  void add_kind(Kind kind) {
    ++count[kind];
    ++size;
    suit[static_cast<std::size_t>(suit_of(kind))] += detail::kWeights[kind];
  }
  void remove_kind(Kind kind) {
    --count[kind];
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
  /// Kinds the hand holds at least one, two, three, four of.
  KindSet kinds() const {
    return kinds_where(count, [](auto c) { return (c | c >> 1 | c >> 2) & detail::kLowBits; });
  }
  KindSet pairs() const {
    return kinds_where(count, [](auto c) { return (c >> 1 | c >> 2) & detail::kLowBits; });
  }
  KindSet triplets() const {
    return kinds_where(count, [](auto c) { return ((c & c >> 1) | c >> 2) & detail::kLowBits; });
  }
  KindSet quads() const {
    return kinds_where(count, [](auto c) { return c >> 2 & detail::kLowBits; });
  }
  bool has_quad() const {
    std::array<std::uint64_t, 4> counts;
    std::memcpy(counts.data(), count.data(), 32);
    return (((counts[0] | counts[1] | counts[2] | counts[3]) & 4 * detail::kLowBits) |
            ((count[32] | count[33]) & 4U)) != 0;
  }
  std::vector<Tile> tiles() const;
  friend bool operator==(const Hand&, const Hand&) = default;
};

/// Throws InvalidHand for five of a kind or more than 14 tiles.
Hand make_hand(std::span<const Tile> tiles);
Hand make_hand(std::string_view text);

}  // namespace ingot::mahjong
