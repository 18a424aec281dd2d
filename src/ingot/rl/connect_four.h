#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "ingot/rl/environment.h"

namespace ingot {

/// Connect Four: 7 columns, 6 rows, four in a line win. An action is a column. The one who moves sees
/// [2, 6, 7]: its own stones and the other's, the lowest row first. A win brings 1 and costs the loser 1.
struct ConnectFour {
  static constexpr int kColumns = 7, kRows = 6, kPlayers = 2;
  /// Bits of a column stand together, lowest row first, an empty one above them.
  using Stones = std::uint64_t;
  Stones own, all;  ///< of the one who moves, and of both

  static EnvironmentSpec spec() {
    return {.players = kPlayers, .actions = kColumns, .observation = {kPlayers, kRows, kColumns}};
  }
  void begin(Rng&) { own = all = 0; }
  int player() const { return std::popcount(all) % kPlayers; }
  void observe(std::span<float> out) const;
  void legal(std::span<float> out) const;
  bool act(std::int32_t action, std::span<float> rewards);

  bool may(int column) const { return (all >> (column * (kRows + 1)) & Stones{1} << (kRows - 1)) == 0; }
  bool full() const { return std::popcount(all) == kColumns * kRows; }
  /// The one to move drops a stone into a column that is not full.
  void drop(int column);
  /// Whether the one who moved last has four in a line.
  bool won() const;
};

/// What looking `depth` moves ahead finds (negamax, alpha-beta), for the one to move: wins, the sooner the
/// better, losses, the later the better, 0 where neither is in sight. Each column's; nothing where it is
/// full.
std::array<std::optional<int>, ConnectFour::kColumns> search_connect_four(const ConnectFour& game, int depth);
/// One of the best columns of the search, by lot.
int searched_column(const ConnectFour& game, int depth, Rng& random);

}  // namespace ingot
