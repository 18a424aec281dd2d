// libFuzzer target: bytes choose rules, wall and actions, legal and illegal; points and phases must stay
// sound.
#include <cstdint>
#include <cstring>

#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/table.h"

using namespace ingot::mahjong;

// With sanitizers the tables take seconds, which would count as the first input's.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  prepare_shanten_tables();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  Rules rules;
  rules.multiple_ron = static_cast<MultipleRon>(data[0] % 3);
  rules.kuikae = static_cast<Kuikae>(data[0] / 3 % 3);
  rules.kan_dora = static_cast<KanDora>(data[0] / 9 % 3);
  rules.rob_ankan_for_kokushi = (data[1] & 1) != 0;
  rules.riichi_ankan = static_cast<RiichiAnkan>(data[1] / 2 % 3);
  rules.length = static_cast<GameLength>(data[1] / 8 % 3);
  Table table = start_game(rules, seed_from_number(data[2]));
  for (std::size_t i = 3; i < size && !table.over(); ++i) {
    if (table.pub.phase == Phase::RoundOver) next_round(table);
    const int player = __builtin_ctz(table.to_act());
    if (data[i] >= 250 && i + 4 < size) {
      Action any;
      std::memcpy(&any, data + i + 1, sizeof any);
      const Table before = table;
      try {
        apply(table, data[i] % 4, any);
      } catch (const IllegalAction&) {
        if (std::memcmp(&before, &table, sizeof table) != 0) __builtin_trap();
      }
      continue;
    }
    const ActionList legal = legal_actions(table, player);
    apply(table, player, legal[data[i] % legal.size()]);
    std::int64_t points = 1000 * table.pub.sticks;
    for (const Seat& seat : table.pub.seats) points += seat.score;
    if (points != 4 * rules.starting_points) __builtin_trap();
  }
  return 0;
}
