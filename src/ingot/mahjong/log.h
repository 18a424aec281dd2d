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
  std::array<std::string, 4> names;  ///< by seat; empty where the log does not say
  std::vector<LogRound> rounds;
  bool starts_at_beginning = true;
  std::optional<bool> complete;  ///< whether the log says that the game ended; nothing if it cannot say
  std::optional<std::array<std::int32_t, 4>> final_scores;
  std::optional<std::array<double, 4>> final_points;

  /// Takes over a result. Tenhou rounded to thousands until 2022: points without tenths are taken for such.
  /// Its first years' uma of East games, 10 5, is told by the points, too.
  void end_with(const std::array<std::int32_t, 4>& scores, const std::array<double, 4>& points);
};

/// Reads Tenhou's XML. The hands and indicators are checked against the wall of its seed, where it has one of
/// a generator that TenhouWalls knows. Results of games with other rules than the public rooms' (`GO type`
/// above 255: gold, a tournament's settings), whose uma the log does not name, are left out.
/// Throws FormatError naming the file, the element and its number.
GameLog read_mjlog(std::string_view xml, const std::string& source);

/// Reads line JSON as mjai defines it. Throws FormatError naming the file and the line.
GameLog read_mjai(std::string_view text, const std::string& source, const Rules& rules = {});
/// One event as a line of mjai JSON (no newline). With `viewer` 0 to 3 other players' hands and draws are
/// "?".
std::string to_mjai(const Event& event, int viewer = -1);
/// A game as lines of mjai JSON, as read_mjai reads it; with the players' names by seat, where they are
/// given.
std::string to_mjai(const Events& events, const std::array<std::string, 4>& names = {});
/// One line back. Throws FormatError; fields it does not know are left alone, unknown types refused.
Event parse_mjai(std::string_view line, const std::string& source = "mjai");

/// Reads the JSON of tenhou.net/6, whole games or single rounds. Who acts when is found by following the
/// calls. The room's name tells the rules: Tenhou's, or Mahjong Soul's; `otherwise` are those of other games.
GameLog read_tenhou_json(std::string_view text, const std::string& source, const Rules& otherwise = {});

/// `otherwise` are the rules of logs that do not name theirs.
/// Reads any of the three formats, gzip-compressed or not, telling them apart by content. An archive that
/// expands to more than `max_bytes` is refused with FormatError.
GameLog read_log(const std::string& path, const Rules& otherwise = {}, std::size_t max_bytes = 64U << 20);
/// The content of a file, decompressed if it is gzip. The same limit.
std::string read_maybe_gzip(const std::string& path, std::size_t max_bytes = 64U << 20);
/// Writes a log, all or nothing; gzip where the name ends in .gz. IoError names the file.
void write_log(const std::string& path, const std::string& text);
GameLog parse_log(std::string_view content, const std::string& source, const Rules& otherwise = {});

struct ReplayCounts {
  int rounds = 0, actions = 0, wins = 0, draws = 0;
  int seeded = 0;                        ///< rounds whose wall came from the log's seed
  std::array<std::int32_t, 4> scores{};  ///< after the last round
  bool over = false;                     ///< the game ended with it
};
/// Called before each decision with the table, who decides, and what the log says was chosen.
using DecisionVisitor = std::function<void(const Table&, int player, const Action&)>;

/// Plays the log on a table: every action must be legal, every consequence (draws, dora, wins with yaku, fu
/// and payments, noten payments, next round, final scores and results) must be what the log says. Throws
/// FormatError naming file, round and the number of the first event that cannot be.
ReplayCounts replay(const GameLog& log, const DecisionVisitor& visit = {});

std::string_view event_name(EventType type);

}  // namespace ingot::mahjong
