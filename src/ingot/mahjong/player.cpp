#include "ingot/mahjong/player.h"

#include <fmt/core.h>

#include "ingot/base/rng.h"

namespace ingot::mahjong {

Action TsumogiriPlayer::select(const Observation&, const ActionList& legal) {
  for (const ActionType type : {ActionType::Tsumo, ActionType::Ron})
    if (const Action* win = legal.find(type)) return *win;
  if (const Action* pass = legal.find(ActionType::Pass)) return *pass;
  for (const Action& action : legal)
    if (action.type == ActionType::Discard && action.tsumogiri()) return action;
  return legal[0];
}

PlayerFactory one_by_one(std::shared_ptr<BatchSelector> selector) {
  class Alone : public ActionSelector {
   public:
    Alone(std::shared_ptr<BatchSelector> selector, std::uint64_t seed)
        : selector_(std::move(selector)), random_{.seed = seed} {}
    Action select(const Observation& observation, const ActionList& legal) override {
      const Decision decision{observation, legal,
                              static_cast<double>(uniform_from_bits(random_.block(decisions_++)[0]))};
      Action action = Action::pass();
      selector_->select({&decision, 1}, {&action, 1});
      return action;
    }

   private:
    std::shared_ptr<BatchSelector> selector_;
    RngKey random_;
    std::uint64_t decisions_ = 0;
  };
  return [selector = std::move(selector)](std::uint64_t seed) {
    return std::make_unique<Alone>(selector, seed);
  };
}

PlayerFactory player_named(std::string_view name) {
  if (name == "random") return [](std::uint64_t seed) { return std::make_unique<RandomPlayer>(seed); };
  if (name == "first-legal") return [](std::uint64_t) { return std::make_unique<FirstLegalPlayer>(); };
  if (name == "tsumogiri") return [](std::uint64_t) { return std::make_unique<TsumogiriPlayer>(); };
  if (name == "simple") return [](std::uint64_t) { return std::make_unique<SimplePlayer>(); };
  if (name == "rule-based") return [](std::uint64_t) { return std::make_unique<RuleBasedPlayer>(); };
  throw InvalidConfig(
      "player",
      fmt::format("\"{}\" is unknown; use random, first-legal, tsumogiri, simple, rule-based or model:DIR",
                  name));
}

}  // namespace ingot::mahjong
