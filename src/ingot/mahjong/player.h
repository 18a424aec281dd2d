#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ingot/mahjong/table.h"

namespace ingot::mahjong {

/// Whoever decides: a program, a network, a person at a terminal. It is asked with what its seat may see and
/// the legal actions (never empty), and answers with one of them.
class ActionSelector {
 public:
  virtual ~ActionSelector() = default;
  virtual Action select(const Observation& observation, const ActionList& legal) = 0;
};

/// A decision that is due.
struct Decision {
  Observation observation;
  ActionList legal;
  double uniform = 0;  ///< in [0, 1): the chance of a player that draws
};

/// Decides many at once, of any games and seats, by what stands in each decision alone: a network.
class BatchSelector {
 public:
  virtual ~BatchSelector() = default;
  /// One of the legal actions of each.
  virtual void select(std::span<const Decision> decisions, std::span<Action> actions) = 0;
};

/// Makes a player for one game; `seed` is that game's and seat's own.
using PlayerFactory = std::function<std::unique_ptr<ActionSelector>(std::uint64_t seed)>;

class RandomPlayer : public ActionSelector {
 public:
  explicit RandomPlayer(std::uint64_t seed) : random_(seed_from_number(seed)) {}
  Action select(const Observation&, const ActionList& legal) override {
    return legal[random_.below(static_cast<std::uint32_t>(legal.size()))];
  }

 private:
  ChaCha8 random_;
};

class FirstLegalPlayer : public ActionSelector {
 public:
  Action select(const Observation&, const ActionList& legal) override { return legal[0]; }
};

/// Discards what it draws, never calls, wins when it can.
class TsumogiriPlayer : public ActionSelector {
 public:
  Action select(const Observation& observation, const ActionList& legal) override;
};

/// The plainer of the two honest opponents, rules of thumb: it lowers its shanten with the widest acceptance,
/// declares riichi, calls for yakuhai, tanyao and a flush when that brings it nearer, and folds by genbutsu,
/// suji and walls against a riichi when its own hand is far off. It knows no more than its observation.
class SimplePlayer : public ActionSelector {
 public:
  struct Options {
    int fold_shanten = 2;  ///< against a riichi, fold from this shanten on
    bool calls = true;
    bool defends = true;
  };
  SimplePlayer() = default;
  explicit SimplePlayer(const Options& options) : options_(options) {}
  Action select(const Observation& observation, const ActionList& legal) override;

 private:
  Action on_turn(const Observation& o, const ActionList& legal) const;
  Action on_claim(const Observation& o, const ActionList& legal) const;
  Action best_discard(const Observation& o, const ActionList& legal) const;
  Options options_;
};

/// The strong one. It weighs every discard, riichi, call and kan by the mean place it expects: what the hand
/// may win (HandOutlook), what the tile may cost (Threat) and what points are worth where the game stands
/// (PlaceUtility). Deterministic; it knows no more than its observation.
class RuleBasedPlayer : public ActionSelector {
 public:
  Action select(const Observation& observation, const ActionList& legal) override;

 private:
  Action on_turn(const Observation& o, const ActionList& legal) const;
  Action on_claim(const Observation& o, const ActionList& legal) const;
};

/// A player that asks `selector` for each decision alone.
PlayerFactory one_by_one(std::shared_ptr<BatchSelector> selector);

/// "random", "first-legal", "tsumogiri", "simple" or "rule-based"; throws InvalidConfig for another name.
PlayerFactory player_named(std::string_view name);

}  // namespace ingot::mahjong
