#pragma once

#include <future>
#include <span>
#include <string>
#include <vector>

#include "ingot/mahjong/game_index.h"
#include "ingot/mahjong/labels.h"

namespace ingot::mahjong {

struct DecisionStreamOptions {
  std::uint64_t seed = 1;
  std::int64_t pool_games = 64;  ///< games whose decisions are mixed
  double reserve = 0.2;          ///< share of a pool's decisions that wait for the next pool
  bool permute_suits = true;     ///< one of the six renamings for each game and epoch
};

/// Decisions of many games in random order: games are shuffled, so many of them are a pool, a part of each
/// pool is mixed into the next one, and a pool is shuffled. Every epoch has each decision once. What comes
/// depends on the index and the options alone, and a position leads back to the same decision. The next pool
/// is read by another thread.
class DecisionStream {
 public:
  struct Position {
    std::int64_t epoch = 0, pool = 0, next = 0;  ///< `next`: of the pool's decisions
    friend bool operator==(const Position&, const Position&) = default;
  };

  DecisionStream(const GameIndex& index, const DecisionStreamOptions& options);
  ~DecisionStream();
  DecisionStream(const DecisionStream&) = delete;
  DecisionStream& operator=(const DecisionStream&) = delete;

  /// The next `count` decisions, valid until the next call. Goes on into the next epoch. Throws IoError when
  /// an epoch has none at all.
  std::span<const LabelledDecision> next(std::size_t count);
  Position position() const { return position_; }
  void seek(const Position& position);
  /// Logs that could not be read any more, with the reason: they are passed over.
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  struct Pool {
    std::vector<LabelledDecision> decisions;
    std::vector<LabelledDecision> reserved;  // for the next pool
    std::vector<std::string> skipped;
  };
  std::int64_t pools() const;
  std::vector<std::size_t> order_of_epoch(std::int64_t epoch) const;
  // The decisions of a pool's own games: those that come now and those that wait.
  Pool read_games(std::int64_t epoch, std::int64_t pool) const;
  Pool make_pool(Position at, std::vector<LabelledDecision> waiting) const;
  Position after(Position at) const;
  void take_next_pool();
  void read_ahead();

  std::vector<IndexedGame> games_;
  Rules rules_;
  DecisionStreamOptions options_;
  Position position_;
  Pool pool_;
  bool has_pool_ = false;
  std::future<Pool> ahead_;
  std::vector<LabelledDecision> batch_;
  std::vector<std::string> skipped_;
};

}  // namespace ingot::mahjong
