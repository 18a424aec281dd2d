#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ingot/mahjong/tile.h"

namespace ingot::mahjong {

/// 136 tiles in Tenhou's order: hands and draws are taken from the end (wall[135] first); wall[1], [0], [3],
/// [2] are the kan draws, wall[5], [7], [9], [11], [13] the dora indicators and wall[4], [6], .. the ura
/// ones.
using Wall = std::array<TileId, kTileIds>;
inline constexpr std::array<std::uint8_t, 4> kRinshanPlaces = {1, 0, 3, 2};

using Seed = std::array<std::uint8_t, 32>;

/// SHA-256(session || game as u64 little-endian): the seed of one game of a session.
Seed game_seed(const Seed& session, std::uint64_t game);
/// SHA-256(session || nonce as u64 little-endian || kyoku || honba): the seed of one round.
Seed round_seed(const Seed& session, std::uint64_t nonce, std::uint8_t kyoku, std::uint8_t honba);
/// A seed from a plain number: its SHA-256.
Seed seed_from_number(std::uint64_t number);
/// The wall of a round: ChaCha8 keyed with the seed (counter and stream 0), then Fisher-Yates from 135 down
/// to 1 with 32-bit widening multiplications and one bias-reducing step.
Wall shuffle_wall(const Seed& round);

/// Tenhou's generators: walls of one game, in order. All are MT19937; the words of a seed are
/// "mt19937ar-sha512-n288-base64," and base64 of 624 of them, in the attribute `seed` of SHUFFLE; before, and
/// with indicators and kan draws the other way up, "mt19937ar-sha512-n288," and hexadecimal words; and at
/// first "mt19937ar," in the attribute `shuffle` of each INIT, whose output was used without SHA-512.
class TenhouWalls {
 public:
  /// Whether the text names one of these generators; other platforms write seeds of their own.
  static bool knows(std::string_view seed) { return seed.starts_with("mt19937ar"); }
  /// Throws FormatError for another generator, or for words that cannot be read.
  explicit TenhouWalls(std::string_view seed);
  struct Deal {
    Wall wall;
    std::array<std::uint8_t, 2> dice;  ///< 1 to 6
  };
  Deal next();

 private:
  void start(std::span<const std::uint32_t> key);
  std::uint32_t next_u32();
  bool hashed_ = true, old_layout_ = true;
  std::array<std::uint32_t, 624> state_{};
  std::size_t index_ = 624;
};

/// The ChaCha8 stream, for shuffles and random players: reproducible, small, fast enough.
class ChaCha8 {
 public:
  explicit ChaCha8(const Seed& key);
  std::uint32_t next_u32() {
    if (used_ == words_.size()) refill();
    return words_[used_++];
  }
  /// Uniform in [0, n), n > 0, by the method described at shuffle_wall.
  std::uint32_t below(std::uint32_t n) {
    const std::uint64_t product = std::uint64_t{next_u32()} * n;
    auto high = static_cast<std::uint32_t>(product >> 32);
    const auto low = static_cast<std::uint32_t>(product);
    if (low > 0U - n) {
      const auto carry = static_cast<std::uint32_t>(std::uint64_t{next_u32()} * n >> 32);
      high += low + carry < low;
    }
    return high;
  }

 private:
  void refill();
  std::array<std::uint32_t, 8> key_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 16> words_{};
  std::size_t used_ = 16;
};

}  // namespace ingot::mahjong
