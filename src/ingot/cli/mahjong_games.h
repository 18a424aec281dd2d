#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingot/cli/command.h"
#include "ingot/cli/mahjong_watch.h"

namespace ingot::cli {

/// What the commands of `ingot mahjong` are told.
struct MahjongOptions {
  std::string rules = "tenhou", length = "hanchan", opponents = "rule-based", player = "human", save, hand,
              win, dora, ura, out = "review.html";
  std::string bank;
  std::optional<double> sequential;
  double error = 0.05;
  std::vector<std::string> files, players, melds;
  std::uint64_t seed = 1;
  std::int64_t walls = 100, seat_wind = 1, round_wind = 1, seat = 0;
  bool mjai = false, json = false, watch = false, tsumo = false, riichi = false, ippatsu = false;
  bool double_riichi = false, last_tile = false, rinshan = false, chankan = false, first_turn = false;
  std::optional<std::int64_t> port;
  TableView::Options view;
};

/// What --rules and --length take.
std::vector<std::string> rule_presets();
std::vector<std::string> game_lengths();
/// Those of the preset, of the length asked for.
mahjong::Rules rules_of(const MahjongOptions& options);

// The commands that play or read whole games; each returns the exit code.
int play_mahjong(MahjongOptions options);
int replay_mahjong(const MahjongOptions& options);
int validate_mahjong(const MahjongOptions& options);
int review_mahjong(const MahjongOptions& options);

/// `train` below `ingot mahjong`.
void add_mahjong_train(Command& mahjong);
/// `ladder` below `ingot mahjong`.
void add_mahjong_ladder(Command& mahjong);
/// `dataset` below `ingot mahjong`: generate, stats, sample.
void add_mahjong_dataset(Command& mahjong);

}  // namespace ingot::cli
