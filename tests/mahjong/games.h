#pragma once

#include <memory>
#include <string>

#include "ingot/mahjong/arena.h"
#include "ingot/mahjong/log.h"

namespace ingot::mahjong {

/// A random game as mjai text.
inline std::string random_game_mjai(std::uint64_t seed, const Rules& rules = {}) {
  Events events;
  Table table = start_game(rules, seed_from_number(seed), 0, &events);
  ChaCha8 random(game_seed(table.session, 5));
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table, &events);
      continue;
    }
    const int player = __builtin_ctz(table.to_act());
    const ActionList legal = legal_actions(table, player);
    apply(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))], &events);
  }
  return to_mjai(events);
}

/// A game of four simple players, which decide fast.
inline Events simple_game(std::uint64_t seed, const Rules& rules = {}) {
  std::array<SimplePlayer, 4> players;
  Events events;
  play_game(rules, seed_from_number(seed), 0, {&players[0], &players[1], &players[2], &players[3]}, &events);
  return events;
}

}  // namespace ingot::mahjong
