#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ingot/mahjong/log.h"
#include "ingot/models/policy/dual_pool_net.h"

namespace ingot {

/// What a network thinks of a decision, and what the player did.
struct ReviewedDecision {
  int seat = 0, round = 0;
  std::size_t frame = 0;  ///< of GameReview::frames
  int chosen = 0;         ///< of the 46 actions
  std::vector<std::pair<int, float>>
      policy;                     ///< every legal action with its probability, the most probable first
  float value = 0;                ///< what the rest of the game brings, in points
  std::array<float, 4> places{};  ///< odds of ending first to fourth
  std::array<float, 3> tenpai{};  ///< of the opponents, next player first
  std::array<float, mahjong::kKinds> danger{};  ///< that a tile would be won on by somebody, discarded now

  bool agrees() const { return policy.front().first == chosen; }
  /// How much likelier the network's first choice is than the player's: 0 where they agree, up to 1. No
  /// points.
  double cost() const;
};

/// The table when somebody acts, and how.
struct ReviewFrame {
  mahjong::Table table;
  int player = 0;
  mahjong::Action action{};
  int round = 0;
  std::int64_t decision = -1;  ///< of GameReview::decisions; -1: there was no choice
};

struct GameReview {
  std::string source, player;  ///< file and network
  std::array<std::string, 4> names;
  std::vector<ReviewFrame> frames;
  std::vector<ReviewedDecision> decisions;
  std::vector<mahjong::LogRound> rounds;

  /// Of a seat, the dearest first: decisions that the network would have taken otherwise.
  std::vector<std::size_t> mistakes(int seat) const;
};

/// Replays a log and asks the network about each decision of all seats. Throws as replay() and
/// mahjong_encoding() do; `player` is the network's name, for the page.
GameReview review_game(const mahjong::GameLog& log, const DualPoolNet& net, const std::string& player);

/// One HTML page that needs nothing else: the game tile by tile as `seat` sees it (0 to 3; the page can
/// switch), the network's opinion beside the player's choice, mistakes, a summary of each round.
std::string review_page(const GameReview& review, int seat);

}  // namespace ingot
