#include "ingot/rl/rollout.h"

#include <algorithm>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

Device device_of(ActorCritic& network) { return parameters(network.module()).front()->value.device(); }

std::vector<float> host_floats(const Tensor& x) { return to(x, kCpu).to_vector<float>(); }

}  // namespace

RolloutCollector::RolloutCollector(Environment& environment, ActorCritic& network, ActorCritic* anchor)
    : environment_(environment),
      network_(network),
      anchor_(anchor),
      returns_(environment.games() * static_cast<std::size_t>(environment.spec().players)),
      rewards_(returns_.size()),
      ended_(environment.games()) {}

Tensor RolloutCollector::observation_tensor(std::span<const float> observations) const {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(environment_.games())};
  const auto& one = environment_.spec().observation;
  shape.insert(shape.end(), one.begin(), one.end());
  return to(Tensor::from(observations, Shape(shape)), device_of(network_));
}

Rollout RolloutCollector::collect(std::int64_t steps, RngKey random) {
  const NoGrad no_grad;
  Rollout rollout;
  open_.assign(returns_.size(), -1);
  const std::size_t games = environment_.games();
  std::vector<std::int32_t> actions(games);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::size_t first = rollout.size();
    decide(rollout, step, random);
    std::ranges::transform(rollout.actions.begin() + static_cast<std::ptrdiff_t>(first),
                           rollout.actions.end(), actions.begin(),
                           [](std::int64_t a) { return static_cast<std::int32_t>(a); });
    environment_.step(actions, rewards_, ended_);
    reward(rollout);
  }
  return rollout;
}

void RolloutCollector::decide(Rollout& rollout, std::int64_t step, RngKey random) {
  const std::size_t games = environment_.games(), first = rollout.size();
  const auto width = static_cast<std::size_t>(environment_.spec().observation_size());
  const auto choices = static_cast<std::size_t>(environment_.spec().actions);
  const auto players = static_cast<std::size_t>(environment_.spec().players);
  rollout.observations.resize((first + games) * width);
  rollout.legal.resize((first + games) * choices);
  const std::span<float> observations = std::span(rollout.observations).subspan(first * width);
  const std::span<float> legal = std::span(rollout.legal).subspan(first * choices);
  environment_.observe(observations, legal);

  const Tensor x = observation_tensor(observations);
  const std::vector<std::int64_t> mask_shape{static_cast<std::int64_t>(games), environment_.spec().actions};
  const Tensor mask = to(Tensor::from(std::span<const float>(legal), Shape(mask_shape)), x.device());
  const ActorCriticOutput output = network_(x);
  const std::vector<float> log_all = host_floats(masked_log_softmax(output.logits, mask));
  const std::vector<float> values = host_floats(output.value);
  if (anchor_ != nullptr) {
    const std::vector<float> anchor = host_floats(masked_log_softmax((*anchor_)(x).logits, mask));
    rollout.anchor.insert(rollout.anchor.end(), anchor.begin(), anchor.end());
  }
  for (std::size_t game = 0; game < games; ++game) {
    const std::span<const float> row = std::span(log_all).subspan(game * choices, choices);
    const auto place = static_cast<std::uint64_t>(step) * games + game;
    const std::int32_t action = sample_action(row, legal.subspan(game * choices, choices),
                                              static_cast<double>(uniform_from_bits(random.block(place)[0])));
    const std::size_t stream = game * players + static_cast<std::size_t>(environment_.player(game));
    open_[stream] = static_cast<std::int64_t>(first + game);
    rollout.actions.push_back(action);
    rollout.log_probabilities.push_back(row[static_cast<std::size_t>(action)]);
    rollout.decisions.push_back({.stream = static_cast<std::int32_t>(stream), .value = values[game]});
  }
}

void RolloutCollector::reward(Rollout& rollout) {
  const auto players = static_cast<std::size_t>(environment_.spec().players);
  for (std::size_t stream = 0; stream < returns_.size(); ++stream) {
    const bool ended = ended_[stream / players] != 0;
    returns_[stream] += rewards_[stream];
    if (open_[stream] >= 0) {
      RolloutDecision& decision = rollout.decisions[static_cast<std::size_t>(open_[stream])];
      decision.reward += rewards_[stream];
      decision.last = ended;
    }
    if (!ended) continue;
    open_[stream] = -1;
    if (stream % players == 0) {
      ++rollout.games_ended;
      rollout.returns += static_cast<double>(returns_[stream]);
    }
    returns_[stream] = 0;
  }
}

}  // namespace ingot
