#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// One round as a log tells it: StartKyoku, what happened, and EndKyoku.
struct LogRound {
  Events events;
  std::optional<Wall> wall;  ///< from the log's seed, with every hidden tile; else rebuilt from the events
};

/// A game read from any of the formats.
struct GameLog {
  std::string source;  ///< file name, for messages
  Rules rules;
  std::array<std::string, 4> names;
  std::vector<LogRound> rounds;
  bool starts_at_beginning = true;
  bool complete = false;  ///< the log says that the game ended
  std::optional<std::array<std::int32_t, 4>> final_scores;
  std::optional<std::array<double, 4>> final_points;
};

/// Reads Tenhou's XML. The hands and indicators are checked against the wall of its seed, where it has one.
/// Throws FormatError naming the file, the element and its number.
GameLog read_mjlog(std::string_view xml, const std::string& source);

struct ReplayCounts {
  int rounds = 0, actions = 0, wins = 0, draws = 0;
};
/// Called before each decision with the table, who decides, and what the log says was chosen.
using DecisionVisitor = std::function<void(const Table&, int player, const Action&)>;

/// Plays the log on a table: every action must be legal, every consequence (draws, dora, wins with yaku, fu
/// and payments, noten payments, next round, final scores and results) must be what the log says. Throws
/// FormatError naming file, round and the number of the first event that cannot be.
ReplayCounts replay(const GameLog& log, const DecisionVisitor& visit = {});

std::string_view event_name(EventType type);

}  // namespace ingot::mahjong
