#include "ingot/rl/league.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/ops/cast.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

constexpr std::uint64_t kSeatStream = 0x73656174;

// By name: a past self has no oracle critic.
void copy_weights(ActorCritic& from, ActorCritic& to) {
  const NoGrad no_grad;
  std::map<std::string, Parameter*> source;
  for (const auto& [name, parameter] : named_parameters(from.module())) source[name] = parameter;
  for (const auto& [name, parameter] : named_parameters(to.module()))
    copy_(parameter->value, source.at(name)->value);
}

std::string past_name(std::size_t number, const std::string& parameter) {
  return fmt::format("past.{}.{}", number, parameter);
}

template <class T>
void keep_list(std::map<std::string, Tensor>& tensors, const char* name, const std::vector<T>& values) {
  tensors[name] = Tensor::from(values, {std::ssize(values)});
}

class NetworkOpponent : public Opponent {
 public:
  explicit NetworkOpponent(ActorCritic& network) : network_(network) {}
  std::vector<std::int32_t> decide(const Environment& environment, const OpponentRows& rows) override {
    const NoGrad no_grad;
    const auto count = static_cast<std::int64_t>(rows.games.size());
    const std::int64_t choices = environment.spec().actions;
    std::vector<std::int64_t> shape{count};
    const auto& one = environment.spec().observation;
    shape.insert(shape.end(), one.begin(), one.end());
    const Device device = parameters(network_.module()).front()->value.device();
    const Tensor x = to(Tensor::from(rows.observations, Shape(shape)), device);
    const Tensor mask = to(Tensor::from(rows.legal, {count, choices}), device);
    const std::vector<float> log_all =
        to(masked_log_softmax(network_(x).logits, mask), kCpu).to_vector<float>();
    std::vector<std::int32_t> actions;
    actions.reserve(rows.games.size());
    const auto width = static_cast<std::size_t>(choices);
    for (std::size_t i = 0; i < rows.games.size(); ++i)
      actions.push_back(sample_action(std::span(log_all).subspan(i * width, width),
                                      rows.legal.subspan(i * width, width), rows.uniform[i]));
    return actions;
  }

 private:
  ActorCritic& network_;
};

}  // namespace

std::unique_ptr<Opponent> network_opponent(ActorCritic& network) {
  return std::make_unique<NetworkOpponent>(network);
}

League::League(const Environment& environment, const LeagueOptions& options, std::vector<FixedOpponent> fixed,
               const MakeNetwork& make)
    : options_(options),
      first_game_(environment.share().first),
      fixed_(std::move(fixed)),
      players_(environment.spec().players),
      begun_(environment.games()),
      seats_(environment.games() * static_cast<std::size_t>(players_), kLearns),
      learners_(environment.games()) {
  double shares = options.past;
  for (const FixedOpponent& one : fixed_) {
    INGOT_CHECK(one.share >= 0,
                InvalidConfig("league", fmt::format("the share of {} is negative", one.name)));
    shares += one.share;
  }
  INGOT_CHECK(options.past >= 0 && shares <= 1 + 1e-9,
              InvalidConfig("league", fmt::format("shares add up to {}, expected 1 at most", shares)));
  INGOT_CHECK(options.past_selves > 0 && options.past_every > 0,
              InvalidConfig("league", "past_selves and past_every must be positive"));
  for (std::int64_t i = 0; options.past > 0 && i < options.past_selves; ++i) {
    PastSelf& self = past_.emplace_back();
    self.network = make();
    self.opponent = network_opponent(*self.network);
  }
  for (std::size_t game = 0; game < environment.games(); ++game) begin(game);
}

std::int32_t League::seat(std::size_t game, int player) const {
  return seats_[game * static_cast<std::size_t>(players_) + static_cast<std::size_t>(player)];
}

Opponent& League::opponent(std::int32_t number) {
  const auto i = static_cast<std::size_t>(number);
  return i < past_.size() ? *past_[i].opponent : *fixed_[i - past_.size()].opponent;
}

std::string League::name(std::int32_t number) const {
  const auto i = static_cast<std::size_t>(number);
  return i < past_.size() ? "past self" : fixed_[i - past_.size()].name;
}

void League::begin(std::size_t game) {
  Rng random(RngKey{.seed = options_.seed,
                    .stream = mix_stream(mix_stream(kSeatStream, first_game_ + game),
                                         static_cast<std::uint64_t>(begun_[game]++))});
  const auto learner = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(players_)));
  learners_[game] = learner;
  // Before there is a past self, its share learns.
  const auto selves = static_cast<std::uint64_t>(std::min(noted_, std::ssize(past_)));
  for (std::int32_t player = 0; player < players_; ++player) {
    std::int32_t& seat = seats_[game * static_cast<std::size_t>(players_) + static_cast<std::size_t>(player)];
    seat = kLearns;
    double drawn = random.uniform_double();
    const std::uint64_t which = random.next_u64();
    if (player == learner) continue;
    if (drawn < options_.past) {
      if (selves > 0) seat = static_cast<std::int32_t>(which % selves);
      continue;
    }
    drawn -= options_.past;
    for (std::size_t i = 0; i < fixed_.size(); ++i) {
      if (drawn < fixed_[i].share) {
        seat = static_cast<std::int32_t>(past_.size() + i);
        break;
      }
      drawn -= fixed_[i].share;
    }
  }
}

void League::note(ActorCritic& network, std::int64_t rollouts) {
  if ((rollouts - 1) % options_.past_every != 0) return;
  if (keep_) keep_(rollouts);
  if (past_.empty()) return;
  copy_weights(network, *past_[static_cast<std::size_t>(noted_ % std::ssize(past_))].network);
  ++noted_;
}

std::string League::settings() const {
  nlohmann::ordered_json shares{
      {"past", options_.past}, {"past_selves", options_.past_selves}, {"past_every", options_.past_every}};
  for (const FixedOpponent& one : fixed_) shares[one.name] = one.share;
  return dump_json(shares);
}

void League::save(std::map<std::string, Tensor>& tensors) const {
  keep_list(tensors, "begun", begun_);
  keep_list(tensors, "seats", seats_);
  keep_list(tensors, "learners", learners_);
  keep_list(tensors, "noted", std::vector<std::int64_t>{noted_});
  for (std::size_t i = 0; i < past_.size(); ++i)
    for (const auto& [name, parameter] : named_parameters(past_[i].network->module()))
      tensors[past_name(i, name)] = parameter->value.detach();
}

void League::restore(const std::map<std::string, Tensor>& tensors) {
  const auto at = [&](const std::string& name) {
    const auto found = tensors.find(name);
    INGOT_CHECK(found != tensors.end(), Error("the checkpoint's league has no " + name));
    return found->second;
  };
  const NoGrad no_grad;
  begun_ = at("begun").to_vector<std::int64_t>();
  seats_ = at("seats").to_vector<std::int32_t>();
  learners_ = at("learners").to_vector<std::int32_t>();
  noted_ = at("noted").to_vector<std::int64_t>().at(0);
  for (std::size_t i = 0; i < past_.size(); ++i)
    for (const auto& [name, parameter] : named_parameters(past_[i].network->module()))
      copy_(parameter->value, to(at(past_name(i, name)), parameter->value.device()));
}

}  // namespace ingot
