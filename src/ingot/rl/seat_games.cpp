#include "ingot/rl/seat_games.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/rl/mahjong_game.h"
#include "ingot/rl/mahjong_player.h"
#include "ingot/rl/named_environment.h"

namespace ingot {
namespace {

constexpr std::uint64_t kOpponentStream = 0x6F7468;

class RandomOpponent : public Opponent {
 public:
  std::vector<std::int32_t> decide(const Environment& environment, const OpponentRows& rows) override {
    const auto choices = static_cast<std::size_t>(environment.spec().actions);
    std::vector<std::int32_t> actions(rows.games.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::span<const float> legal = rows.legal.subspan(i * choices, choices);
      const auto count = static_cast<double>(choices) - static_cast<double>(std::ranges::count(legal, 0.0F));
      auto left = static_cast<std::int64_t>(rows.uniform[i] * count);
      std::size_t action = 0;
      for (; legal[action] == 0 || left-- > 0; ++action) {
      }
      actions[i] = static_cast<std::int32_t>(action);
    }
    return actions;
  }
};

std::unique_ptr<Opponent> opponent_named(const std::string& name, const Environment& game) {
  if (name == "random") return std::make_unique<RandomOpponent>();
  const auto* mahjong = dynamic_cast<const GameBatch<MahjongGame>*>(&game);
  INGOT_CHECK(mahjong != nullptr,
              InvalidConfig("opponents", fmt::format("'{}' plays mahjong only; here: random", name)));
  return std::make_unique<BuiltInOpponent>(*mahjong, mahjong_player(name));
}

template <class F>
void for_each_row(std::size_t rows, const F& f) {
  constexpr std::int64_t kGrain = 16, kPiece = 4;
  parallel_share(static_cast<std::int64_t>(rows), kGrain, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(static_cast<std::size_t>(i));
  });
}

}  // namespace

SeatGames::SeatGames(std::string_view name, std::size_t games, std::uint64_t seed, int seat,
                     const std::string& opponents)
    : seat_(seat) {
  open(name, games, seed);
  for (Place& place : places_) place.opponent = opponent_named(opponents, *place.game);
  move_others();
}

SeatGames::SeatGames(std::string_view name, std::size_t games, std::uint64_t seed, int seat, Decide decide)
    : seat_(seat), decide_(std::move(decide)) {
  open(name, games, seed);
  ask_for_others();
}

void SeatGames::open(std::string_view name, std::size_t games, std::uint64_t seed) {
  INGOT_CHECK(games >= 1, InvalidConfig("games", fmt::format("must be at least 1, got {}", games)));
  places_.resize(games);
  all_.resize(games);
  std::iota(all_.begin(), all_.end(), std::size_t{0});
  for (std::size_t i = 0; i < games; ++i) {
    Place& place = places_[i];
    place.game = make_environment(name, 1, seed + i);
    place.random = Rng(RngKey{.seed = seed + i, .stream = kOpponentStream});
    place.rewards.resize(static_cast<std::size_t>(spec().players));
  }
  INGOT_CHECK(
      seat_ >= 0 && seat_ < spec().players,
      InvalidConfig("seat", fmt::format("is {}; {} has seats 0 to {}", seat_, name, spec().players - 1)));
}

void SeatGames::move(Place& place, std::int32_t action) const {
  std::uint8_t ended = 0;
  place.game->step({&action, 1}, place.rewards, {&ended, 1});
  (place.ended ? place.next : place.gained) += place.rewards[static_cast<std::size_t>(seat_)];
  place.ended = place.ended || ended != 0;
}

void SeatGames::move_others() {
  const auto size = static_cast<std::size_t>(spec().observation_size());
  const auto choices = static_cast<std::size_t>(spec().actions);
  for_each_row(places_.size(), [&](std::size_t i) {
    Place& place = places_[i];
    std::vector<float> observation(size), legal(choices);
    constexpr std::size_t kFirst = 0;
    while (place.game->player(0) != seat_) {
      place.game->observe(observation, legal);
      const double uniform = place.random.uniform_double();
      move(place, place.opponent->decide(*place.game, {.games = {&kFirst, 1},
                                                       .observations = observation,
                                                       .legal = legal,
                                                       .uniform = {&uniform, 1}})[0]);
    }
  });
}

void SeatGames::ask_for_others() {
  const auto size = static_cast<std::size_t>(spec().observation_size());
  const auto choices = static_cast<std::size_t>(spec().actions);
  std::vector<float> observations, legal;
  std::vector<std::int32_t> actions;
  for (;;) {
    std::vector<std::size_t> waiting;
    for (const std::size_t i : all_)
      if (places_[i].game->player(0) != seat_) waiting.push_back(i);
    if (waiting.empty()) return;
    observations.resize(waiting.size() * size);
    legal.resize(waiting.size() * choices);
    actions.resize(waiting.size());
    observe_rows(waiting, observations, legal);
    decide_(waiting, observations, legal, actions);
    check_legal(waiting, legal, actions);
    for_each_row(waiting.size(), [&](std::size_t row) { move(places_[waiting[row]], actions[row]); });
  }
}

void SeatGames::observe_rows(Rows games, std::span<float> observations, std::span<float> legal) const {
  const auto size = static_cast<std::size_t>(spec().observation_size());
  const auto choices = static_cast<std::size_t>(spec().actions);
  for_each_row(games.size(), [&](std::size_t row) {
    places_[games[row]].game->observe(observations.subspan(row * size, size),
                                      legal.subspan(row * choices, choices));
  });
}

void SeatGames::check_legal(Rows games, std::span<const float> legal,
                            std::span<const std::int32_t> actions) const {
  const auto choices = static_cast<std::size_t>(spec().actions);
  for (std::size_t row = 0; row < games.size(); ++row) {
    const std::int32_t action = actions[row];
    const bool exists = action >= 0 && static_cast<std::size_t>(action) < choices;
    INGOT_CHECK(
        exists && legal[row * choices + static_cast<std::size_t>(action)] != 0,
        InvalidConfig("actions", fmt::format("action {} is not legal in game {}", action, games[row])));
  }
}

void SeatGames::observe(std::span<float> observations, std::span<float> legal) {
  observe_rows(all_, observations, legal);
  legal_.assign(legal.begin(), legal.end());
  looked_ = true;
}

void SeatGames::step(std::span<const std::int32_t> actions, std::span<float> rewards,
                     std::span<std::uint8_t> ended) {
  if (!looked_) {
    std::vector<float> observations(games() * static_cast<std::size_t>(spec().observation_size()));
    std::vector<float> legal(games() * static_cast<std::size_t>(spec().actions));
    observe(observations, legal);
  }
  check_legal(all_, legal_, actions);
  looked_ = false;
  for_each_row(places_.size(), [&](std::size_t i) { move(places_[i], actions[i]); });
  if (decide_) {
    ask_for_others();
  } else {
    move_others();
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    rewards[i] = std::exchange(place.gained, std::exchange(place.next, 0.0F));
    ended[i] = std::exchange(place.ended, false) ? 1 : 0;
  }
}

}  // namespace ingot
