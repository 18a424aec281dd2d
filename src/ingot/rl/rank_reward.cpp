#include "ingot/rl/rank_reward.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ingot/autograd/grad_mode.h"
#include "ingot/mahjong/labels.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

constexpr float kPoints = 10'000;  // MahjongGame's unit

}  // namespace

RankReward::RankReward(GameBatch<MahjongGame>& games, std::unique_ptr<RankNet> net,
                       const std::array<float, 4>& place_pay)
    : inner_(games), net_(std::move(net)), place_pay_(place_pay), places_(games.games()) {
  std::vector<std::size_t> all(places_.size());
  for (std::size_t game = 0; game < all.size(); ++game) {
    all[game] = game;
    start(game);
  }
  expect(all);
}

void RankReward::start(std::size_t game) {
  const mahjong::PublicState& pub = inner_.game(game).table().pub;
  for (std::size_t p = 0; p < 4; ++p) places_[game].scores[p] = pub.seats[p].score;
}

// From the beginnings of the rounds that the games are in.
void RankReward::expect(std::span<const std::size_t> games) {
  if (games.empty()) return;
  const NoGrad no_grad;
  std::vector<float> contexts;
  for (const std::size_t game : games) {
    const mahjong::PublicState& pub = inner_.game(game).table().pub;
    Place& place = places_[game];
    place.round = pub.round;
    place.honba = pub.honba;
    for (int seat = 0; seat < 4; ++seat) {
      const auto context = mahjong::rank_context(seat, place.scores, pub.round, pub.honba);
      contexts.insert(contexts.end(), context.begin(), context.end());
    }
  }
  const auto rows = static_cast<std::int64_t>(4 * games.size());
  const Device device = net_->layers.layers.front()->bias.value.device();
  const Tensor odds = softmax((*net_)(to(Tensor::from(contexts, {rows, mahjong::kRankContext}), device)));
  const std::vector<float> all = to(odds, kCpu).to_vector<float>();
  for (std::size_t i = 0; i < games.size(); ++i)
    for (std::size_t seat = 0; seat < 4; ++seat) {
      float sum = 0;
      for (int order = 0; order < mahjong::kOrders; ++order) {
        const std::array<int, 4> ends = mahjong::order_of(order);
        const auto place = static_cast<std::size_t>(std::ranges::find(ends, 0) - ends.begin());
        sum += all[(i * 4 + seat) * mahjong::kOrders + static_cast<std::size_t>(order)] * place_pay_[place];
      }
      places_[games[i]].expected[seat] = sum;
    }
}

void RankReward::step(std::span<const std::int32_t> actions, std::span<float> rewards,
                      std::span<std::uint8_t> ended) {
  inner_.step(actions, rewards, ended);
  std::vector<std::size_t> changed;
  for (std::size_t game = 0; game < places_.size(); ++game) {
    Place& place = places_[game];
    const std::span<float> paid = rewards.subspan(game * 4, 4);
    for (std::size_t p = 0; p < 4; ++p)
      place.scores[p] += static_cast<std::int32_t>(std::lround(paid[p] * kPoints));
    std::ranges::fill(paid, 0.0F);
    const mahjong::PublicState& pub = inner_.game(game).table().pub;
    if (ended[game] != 0) {
      const mahjong::GameResult result = mahjong::game_result(place.scores, pub.rules);
      for (std::size_t p = 0; p < 4; ++p)
        paid[p] = place_pay_[static_cast<std::size_t>(result.place[p])] - place.expected[p];
      start(game);
    } else if (pub.round == place.round && pub.honba == place.honba) {
      continue;
    } else {
      for (std::size_t p = 0; p < 4; ++p) paid[p] = -place.expected[p];
    }
    changed.push_back(game);
  }
  expect(changed);
  for (const std::size_t game : changed)
    for (std::size_t p = 0; p < 4 && ended[game] == 0; ++p)
      rewards[game * 4 + p] += places_[game].expected[p];
}

std::vector<std::byte> RankReward::state() const {
  std::vector<std::byte> state = inner_.state();
  const auto own = std::as_bytes(std::span(places_));
  state.insert(state.end(), own.begin(), own.end());
  return state;
}

std::vector<std::size_t> RankReward::state_sizes() const {
  std::vector<std::size_t> sizes = inner_.state_sizes();
  sizes.push_back(sizeof(Place));
  return sizes;
}

void RankReward::restore(std::span<const std::byte> state) {
  const std::size_t own = places_.size() * sizeof(Place);
  check_environment_state(state.size(), inner_.state().size() + own);
  inner_.restore(state.first(state.size() - own));
  std::memcpy(places_.data(), state.last(own).data(), own);
}

}  // namespace ingot
