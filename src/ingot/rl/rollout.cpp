#include "ingot/rl/rollout.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/rl/league.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

Device device_of(ActorCritic& network) { return parameters(network.module()).front()->value.device(); }

// Numbers that are worth a thread.
constexpr std::int64_t kCopyGrain = std::int64_t{1} << 16;

// [rows, shape...].
Shape rows_shape(std::int64_t rows, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> all{rows};
  all.insert(all.end(), shape.begin(), shape.end());
  return Shape(all);
}

std::vector<float> host_floats(const Tensor& x) { return to(x, kCpu).to_vector<float>(); }

}  // namespace

void log_stall(const std::string& call, std::chrono::seconds waited) {
  log(LogLevel::warn, "ingot::rl",
      fmt::format(
          "{} has not come back for {} s, and the run waits for it; if it hangs, end the run and go on "
          "from its last checkpoint with --resume",
          call, waited.count()));
}

RolloutCollector::RolloutCollector(Environment& environment, ActorCritic& network, ActorCritic* anchor,
                                   League* league, std::chrono::milliseconds patience, StallWatch::Tell tell)
    : environment_(environment),
      network_(network),
      anchor_(anchor),
      league_(league),
      observations_(environment.games() * static_cast<std::size_t>(environment.spec().observation_size())),
      legal_(environment.games() * static_cast<std::size_t>(environment.spec().actions)),
      actions_(environment.games()),
      returns_(environment.games() * static_cast<std::size_t>(environment.spec().players)),
      rewards_(returns_.size()),
      ended_(environment.games()),
      stall_watch_(patience, std::move(tell)) {
  const auto reads = [](const ActorCritic* one) { return one != nullptr && one->reads_hidden(); };
  if (!reads(&network) && !reads(anchor)) return;
  const std::int64_t size = environment.spec().hidden_size();
  INGOT_CHECK(size > 0, InvalidConfig("network", "reads what is hidden, but the game tells nothing hidden"));
  hidden_.resize(environment.games() * static_cast<std::size_t>(size));
}

Rollout RolloutCollector::collect(std::int64_t steps, RngKey random) {
  const Scope scope(ScopeKind::data, "play");
  const NoGrad no_grad;
  Rollout rollout;
  if (league_ == nullptr) {
    rollout.observations.reserve(observations_.size() * static_cast<std::size_t>(steps));
    if (network_.reads_hidden()) rollout.hidden.reserve(hidden_.size() * static_cast<std::size_t>(steps));
  }
  open_.assign(returns_.size(), -1);
  for (std::int64_t step = 0; step < steps; ++step) {
    decide(rollout, step, random);
    stall_watch_.run("the game's step()", [&] { environment_.step(actions_, rewards_, ended_); });
    reward(rollout);
  }
  return rollout;
}

void RolloutCollector::copy_rows(std::span<const std::size_t> games, const std::vector<float>& all,
                                 float* to) const {
  const std::size_t width = all.size() / environment_.games();
  const auto grain = static_cast<std::int64_t>(std::max<std::size_t>(1, kCopyGrain / width));
  parallel_for(std::ssize(games), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      std::copy_n(all.data() + games[i] * width, width, to + i * width);
  });
}

std::vector<float> RolloutCollector::rows_of(std::span<const std::size_t> games,
                                             const std::vector<float>& all) const {
  std::vector<float> rows(games.size() * (all.size() / environment_.games()));
  copy_rows(games, all, rows.data());
  return rows;
}

// Through memory that stays, from which a GPU copies by itself.
Tensor RolloutCollector::on_device(std::unique_ptr<Upload>& through, std::span<const float> rows,
                                   const Shape& shape) {
  if (through == nullptr)
    through = std::make_unique<Upload>(shape.with(0, std::ssize(rewards_) / environment_.spec().players),
                                       DType::f32, device_of(network_));
  float* to = through->host().data<float>();
  parallel_for(std::ssize(rows), kCopyGrain, [&](std::int64_t begin, std::int64_t end) {
    std::copy(rows.begin() + begin, rows.begin() + end, to + begin);
  });
  through->send();
  return narrow(through->tensor(), 0, 0, shape[0]);
}

std::uint64_t RolloutCollector::moment(std::int64_t step, std::size_t game) const {
  const GameShare share = environment_.share();
  return static_cast<std::uint64_t>(step) * share.all + share.first + game;
}

void RolloutCollector::decide(Rollout& rollout, std::int64_t step, RngKey random) {
  const std::size_t games = environment_.games();
  // Games by who decides in them: the network that learns first, then the opponents.
  std::vector<std::vector<std::size_t>> deciding(1 + (league_ == nullptr ? 0 : league_->opponents()));
  std::vector<std::vector<double>> uniform(deciding.size());
  std::vector<std::uint8_t> observed(games, 1);
  for (std::size_t game = 0; game < games; ++game) {
    const std::int32_t seat =
        league_ == nullptr ? League::kLearns : league_->seat(game, environment_.player(game));
    const auto who = static_cast<std::size_t>(seat - League::kLearns);
    if (seat != League::kLearns) observed[game] = league_->opponent(seat).reads_observations() ? 1 : 0;
    deciding[who].push_back(game);
    uniform[who].push_back(static_cast<double>(uniform_from_bits(random.block(moment(step, game))[0])));
  }
  stall_watch_.run("the game's observe()", [&] {
    environment_.observe_some(observed, observations_, legal_);
    if (!hidden_.empty()) environment_.observe_hidden(hidden_);
  });
  if (!deciding[0].empty()) learn_from(rollout, deciding[0], uniform[0], step);
  for (std::size_t who = 1; who < deciding.size(); ++who) {
    if (deciding[who].empty()) continue;
    const std::vector<float> observations = rows_of(deciding[who], observations_),
                             legal = rows_of(deciding[who], legal_);
    const std::int32_t number = static_cast<std::int32_t>(who) + League::kLearns;
    std::vector<std::int32_t> chosen;
    stall_watch_.run(fmt::format("the opponent '{}'", league_->name(number)), [&] {
      chosen =
          league_->opponent(number).decide(environment_, {deciding[who], observations, legal, uniform[who]});
    });
    for (std::size_t i = 0; i < chosen.size(); ++i) actions_[deciding[who][i]] = chosen[i];
  }
}

// Kept in the rollout where the network learns from it; undefined where nobody reads it.
Tensor RolloutCollector::hidden_on_device(Rollout& rollout, std::span<const std::size_t> games) {
  if (hidden_.empty()) return {};
  const std::vector<float> rows = rows_of(games, hidden_);
  if (network_.reads_hidden()) rollout.hidden.insert(rollout.hidden.end(), rows.begin(), rows.end());
  return on_device(hidden_inputs_, rows, rows_shape(std::ssize(games), environment_.spec().hidden));
}

// The network decides for these games, and its decisions are kept.
void RolloutCollector::learn_from(Rollout& rollout, std::span<const std::size_t> games,
                                  std::span<const double> uniform, std::int64_t step) {
  const std::size_t first = rollout.size(), seen = rollout.observations.size(), known = rollout.legal.size();
  const auto choices = static_cast<std::size_t>(environment_.spec().actions);
  const auto players = static_cast<std::size_t>(environment_.spec().players);
  rollout.observations.resize(seen + games.size() * (observations_.size() / environment_.games()));
  rollout.legal.resize(known + games.size() * choices);
  copy_rows(games, observations_, rollout.observations.data() + seen);
  copy_rows(games, legal_, rollout.legal.data() + known);
  const std::span<const float> legal = std::span<const float>(rollout.legal).subspan(known);
  const Tensor x = on_device(inputs_, std::span(rollout.observations).subspan(seen),
                             rows_shape(std::ssize(games), environment_.spec().observation));
  const Tensor mask = on_device(masks_, legal, {std::ssize(games), environment_.spec().actions});
  const Tensor hidden = hidden_on_device(rollout, games);
  const ActorCriticOutput output = in_training(network_, x, hidden);
  const std::vector<float> log_all = host_floats(masked_log_softmax(output.logits, mask));
  const std::vector<float> values = host_floats(output.value);
  if (output.player_value.defined()) {
    const std::vector<float> player = host_floats(output.player_value);
    rollout.player_values.insert(rollout.player_values.end(), player.begin(), player.end());
  }
  if (anchor_ != nullptr) {
    const std::vector<float> anchor =
        host_floats(masked_log_softmax(in_training(*anchor_, x, hidden).logits, mask));
    rollout.anchor.insert(rollout.anchor.end(), anchor.begin(), anchor.end());
  }
  for (std::size_t i = 0; i < games.size(); ++i) {
    const std::size_t game = games[i];
    const std::span<const float> row = std::span(log_all).subspan(i * choices, choices);
    const std::int32_t action = sample_action(row, legal.subspan(i * choices, choices), uniform[i]);
    const std::size_t stream = game * players + static_cast<std::size_t>(environment_.player(game));
    open_[stream] = static_cast<std::int64_t>(first + i);
    actions_[game] = action;
    rollout.moments.push_back(moment(step, game));
    rollout.actions.push_back(action);
    rollout.log_probabilities.push_back(row[static_cast<std::size_t>(action)]);
    rollout.decisions.push_back({.stream = static_cast<std::int32_t>(stream), .value = values[i]});
  }
}

// What the last step cost a player, and counted where it learns.
float RolloutCollector::cost_of(Rollout& rollout, std::size_t game, std::size_t stream) const {
  const Environment::Costs told = environment_.costs();
  if (told.costs.empty()) return 0;
  const auto player = static_cast<int>(stream % static_cast<std::size_t>(environment_.spec().players));
  if (league_ != nullptr && league_->seat(game, player) != League::kLearns) return 0;
  rollout.costs += static_cast<double>(told.costs[stream]);
  rollout.occasions += static_cast<double>(told.occasions[game]);
  return told.costs[stream];
}

void RolloutCollector::reward(Rollout& rollout) {
  const auto players = static_cast<std::size_t>(environment_.spec().players);
  for (std::size_t stream = 0; stream < returns_.size(); ++stream) {
    const std::size_t game = stream / players;
    const bool ended = ended_[game] != 0;
    const float cost = cost_of(rollout, game, stream);
    returns_[stream] += rewards_[stream];
    if (open_[stream] >= 0) {
      RolloutDecision& decision = rollout.decisions[static_cast<std::size_t>(open_[stream])];
      decision.reward += rewards_[stream] - cost_weight_ * cost;
      decision.last = ended;
    }
    if (!ended) continue;
    open_[stream] = -1;
    const std::size_t counted = league_ == nullptr ? 0 : static_cast<std::size_t>(league_->learner(game));
    if (stream % players == counted) {
      ++rollout.games_ended;
      rollout.returns += static_cast<double>(returns_[stream]);
    }
    returns_[stream] = 0;
  }
  for (std::size_t game = 0; league_ != nullptr && game < ended_.size(); ++game)
    if (ended_[game] != 0) league_->begin(game);
}

}  // namespace ingot
