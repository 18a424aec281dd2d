#include "ingot/mahjong/game_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/core.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {
namespace {

double rate(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : static_cast<double>(part) / static_cast<double>(whole);
}

// A rate that is not known passes no bound but the one that excludes nobody.
bool passes(const PlayerRecord& record, const GameFilter& filter) {
  return record.games >= filter.min_games &&
         (filter.max_mean_place >= 4 || record.mean_place() <= filter.max_mean_place) &&
         (filter.max_deal_in_rate >= 1 || record.deal_in_rate() <= filter.max_deal_in_rate) &&
         (filter.min_win_rate <= 0 || record.win_rate() >= filter.min_win_rate);
}

std::set<std::string> admitted(const PlayerRecords& records, const GameFilter& filter) {
  std::set<std::string> names;
  const auto asked_for = [&](const std::string& name) {
    return filter.players.empty() || std::ranges::find(filter.players, name) != filter.players.end();
  };
  for (const auto& [name, record] : records)
    if (asked_for(name) && passes(record, filter)) names.insert(name);
  return names;
}

void check_known(const PlayerRecords& records, const GameFilter& filter) {
  for (const std::string& name : filter.players)
    INGOT_CHECK(records.contains(name),
                InvalidConfig("players", fmt::format("has {}, who plays in none of the logs", name)));
}

}  // namespace

double PlayerRecord::mean_place() const { return rate(places, whole_games); }
double PlayerRecord::deal_in_rate() const { return rate(deal_ins, rounds); }
double PlayerRecord::win_rate() const { return rate(wins, rounds); }

bool GameFilter::by_player() const {
  return !players.empty() || min_games > 0 || max_mean_place < 4 || max_deal_in_rate < 1 || min_win_rate > 0;
}

PlayerRecords player_records(const GameIndex& index) {
  PlayerRecords records;
  for (const IndexedGame& game : index.games())
    for (const IndexedSeat& seat : game.seats) {
      if (seat.name.empty()) continue;
      PlayerRecord& record = records[seat.name];
      ++record.games;
      record.rounds += game.rounds;
      record.wins += seat.wins;
      record.deal_ins += seat.deal_ins;
      if (!game.over) continue;
      ++record.whole_games;
      record.places += seat.place + 1;
    }
  return records;
}

FilterResult apply_filter(GameIndex& index, const GameFilter& filter) {
  FilterResult result;
  if (!filter.by_player() && !filter.whole_games) return result;
  const PlayerRecords records = player_records(index);
  check_known(records, filter);
  const std::set<std::string> names = admitted(records, filter);
  const auto games = std::ssize(index.games());
  const std::int64_t decisions = index.decisions();
  index.keep_seats([&](const IndexedGame& game, const IndexedSeat& seat) {
    return (game.over || !filter.whole_games) && (!filter.by_player() || names.contains(seat.name));
  });
  result.games = games - std::ssize(index.games());
  result.decisions = decisions - index.decisions();
  result.players = std::ssize(records) - (filter.by_player() ? std::ssize(names) : std::ssize(records));
  INGOT_CHECK(
      !index.games().empty() || games == 0,
      InvalidConfig("filter", records.empty() && filter.by_player()
                                  ? std::string("leaves nothing: the logs do not name their players")
                                  : fmt::format("leaves nothing of {} games and {} players; widen its bounds "
                                                "(ingot mahjong dataset stats lists the players)",
                                                games, records.size())));
  return result;
}

}  // namespace ingot::mahjong
