#include "ingot/rl/ppo_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/validated.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// Streams of random numbers.
constexpr std::uint64_t kPlayStream = 0x706C6179, kOrderStream = 0x6F726465;

// Row `row` of a matrix of `width` columns, behind `to`.
template <class T>
void append_row(std::vector<T>& to, const std::vector<T>& from, std::size_t row, std::size_t width) {
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(row * width);
  to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(width));
}

// Rows of a matrix on the host, as a tensor on the device.
template <class T>
Tensor rows_of(const std::vector<T>& all, std::span<const std::int64_t> rows, std::vector<std::int64_t> shape,
               Device device) {
  const auto width = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  std::vector<T> picked;
  picked.reserve(rows.size() * width);
  for (const std::int64_t row : rows) append_row(picked, all, static_cast<std::size_t>(row), width);
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows.size()));
  return to(Tensor::from(picked, Shape(shape)), device);
}

double variance(std::span<const float> x, std::span<const float> minus = {}) {
  double total = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x[i]) - (minus.empty() ? 0 : static_cast<double>(minus[i]));
    total += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(x.size());
  return squares / n - total / n * (total / n);
}

// Mean 0 and standard deviation 1 over the minibatch, as PPO's authors do.
void normalize(std::vector<float>& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  const double deviation = std::sqrt(std::max(variance(x), 0.0)) + 1e-8;
  for (float& value : x) value = static_cast<float>((static_cast<double>(value) - mean) / deviation);
}

template <class T>
void keep(std::map<std::string, Tensor>& tensors, const char* name, const std::vector<T>& values) {
  if (!values.empty()) tensors[name] = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

template <class T>
std::vector<T> kept(const std::map<std::string, Tensor>& tensors, const char* name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? std::vector<T>() : found->second.to_vector<T>();
}

// Of `target` by `value`: 1 is perfect, 0 no better than its mean.
double explained(std::span<const float> target, std::span<const float> value) {
  const double spread = variance(target);
  return spread > 0 ? 1 - variance(target, value) / spread : 0;
}

Json terms_of(const CostLimitOptions& limit) {
  return {limit.target, limit.proportional, limit.integral, limit.derivative, limit.most};
}

}  // namespace

void PpoOptions::validate() const {
  const auto positive = [](const char* key, double value) {
    INGOT_CHECK(value > 0, InvalidConfig(key, fmt::format("must be positive, got {}", value)));
  };
  positive("rollout_steps", static_cast<double>(rollout_steps));
  positive("minibatch", static_cast<double>(minibatch));
  positive("epochs", static_cast<double>(epochs));
  positive("clip_range", loss.clip);
  const auto share = [](const char* key, double value) {
    INGOT_CHECK(value >= 0 && value <= 1,
                InvalidConfig(key, fmt::format("must be from 0 to 1, got {}", value)));
  };
  share("gamma", advantage.gamma);
  share("gae_lambda", advantage.lambda);
}

PpoTask::PpoTask(Environment& environment, ActorCritic& network, const PpoOptions& options,
                 ActorCritic* anchor, League* league)
    : environment_(environment),
      network_(network),
      options_(validated(options)),
      has_anchor_(anchor != nullptr),
      league_(league),
      collector_(environment, network, anchor, league),
      optimizer_(network.module(), options.optimizer, options.schedule),
      cost_limit_(options.cost_limit) {
  INGOT_CHECK(options.cost_limit.target == 0 || !environment.costs().costs.empty(),
              InvalidConfig("target", "is given, but the game tells no costs that could be limited"));
}

void PpoTask::play() {
  const RngKey random{.seed = options_.seed,
                      .stream = mix_stream(kPlayStream, static_cast<std::uint64_t>(health_.rollouts))};
  collector_.set_cost_weight(cost_limit_.multiplier());
  const Rollout rollout = collector_.collect(options_.rollout_steps, random);
  const auto streams = static_cast<std::int64_t>(environment_.games()) * environment_.spec().players;
  keep_known(rollout, estimate_advantages(rollout.decisions, streams, options_.advantage));
  INGOT_CHECK(!actions_.empty(),
              InvalidConfig("rollout_steps", fmt::format("{} decisions of each game are too few: no player "
                                                         "decided twice and no game ended",
                                                         options_.rollout_steps)));
  ++health_.rollouts;
  if (options_.cost_limit.target > 0) limit_costs(rollout);
  if (league_ != nullptr) league_->note(network_, health_.rollouts);
  health_.games += rollout.games_ended;
  if (rollout.games_ended > 0)
    health_.mean_return = rollout.returns / static_cast<double>(rollout.games_ended);
  epoch_ = 0;
  begin_epoch();
}

void PpoTask::limit_costs(const Rollout& rollout) {
  if (rollout.occasions == 0) return;
  health_.cost_rate = rollout.costs / rollout.occasions;
  cost_limit_.measure(health_.cost_rate);
  health_.cost_weight = cost_limit_.multiplier();
}

void PpoTask::keep_known(const Rollout& rollout, const Advantages& advantages) {
  const auto width = static_cast<std::size_t>(environment_.spec().observation_size());
  const auto choices = static_cast<std::size_t>(environment_.spec().actions);
  const auto hidden = static_cast<std::size_t>(environment_.spec().hidden_size());
  for (auto* values :
       {&observations_, &hidden_, &legal_, &log_probabilities_, &anchor_, &advantage_, &target_})
    values->clear();
  actions_.clear();
  std::vector<float> value, player_value;
  for (std::size_t i = 0; i < rollout.size(); ++i) {
    if (advantages.known[i] == 0) continue;
    append_row(observations_, rollout.observations, i, width);
    append_row(legal_, rollout.legal, i, choices);
    if (!rollout.hidden.empty()) append_row(hidden_, rollout.hidden, i, hidden);
    if (has_anchor_) append_row(anchor_, rollout.anchor, i, choices);
    if (!rollout.player_values.empty()) player_value.push_back(rollout.player_values[i]);
    value.push_back(rollout.decisions[i].value);
    actions_.push_back(rollout.actions[i]);
    log_probabilities_.push_back(rollout.log_probabilities[i]);
    advantage_.push_back(advantages.advantage[i]);
    target_.push_back(advantages.target[i]);
  }
  health_.explained_variance = explained(target_, value);
  if (!player_value.empty()) health_.player_explained_variance = explained(target_, player_value);
}

void PpoTask::begin_epoch() {
  order_.resize(actions_.size());
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  const auto number = static_cast<std::uint64_t>(health_.rollouts * options_.epochs + epoch_);
  Rng random(RngKey{.seed = options_.seed, .stream = mix_stream(kOrderStream, number)});
  for (std::size_t i = order_.size(); i-- > 1;) std::swap(order_[i], order_[random.below(i + 1)]);
  next_ = 0;
}

// What the network says to those decisions now.
ActorCriticOutput PpoTask::outputs(std::span<const std::int64_t> rows) const {
  const Device device = parameters(network_.module()).front()->value.device();
  const EnvironmentSpec& spec = environment_.spec();
  const Tensor observations = rows_of(observations_, rows, spec.observation, device);
  return in_training(network_, observations,
                     network_.reads_hidden() ? rows_of(hidden_, rows, spec.hidden, device) : Tensor());
}

PpoBatch PpoTask::batch(std::span<const std::int64_t> rows) const {
  const Device device = parameters(network_.module()).front()->value.device();
  std::vector<float> advantage;
  for (const std::int64_t row : rows) advantage.push_back(advantage_[static_cast<std::size_t>(row)]);
  if (options_.normalize_advantages && rows.size() > 1) normalize(advantage);
  const std::int64_t choices = environment_.spec().actions;
  return {.legal = rows_of(legal_, rows, {choices}, device),
          .action = rows_of(actions_, rows, {}, device),
          .log_probability = rows_of(log_probabilities_, rows, {}, device),
          .advantage = to(Tensor::from(advantage, {static_cast<std::int64_t>(rows.size())}), device),
          .target = rows_of(target_, rows, {}, device),
          .anchor = has_anchor_ ? rows_of(anchor_, rows, {choices}, device) : Tensor()};
}

PpoCoefficients PpoTask::coefficients(std::int64_t step) const {
  PpoCoefficients now = options_.loss;
  if (options_.anneal_steps > 0) {
    const double passed =
        std::min(1.0, static_cast<double>(step) / static_cast<double>(options_.anneal_steps));
    now.entropy += passed * (options_.final_entropy - now.entropy);
    now.anchor += passed * (options_.final_anchor.value_or(now.anchor) - now.anchor);
  }
  return now;
}

StepWork PpoTask::gradients(std::int64_t step) {
  const auto size = [&] { return static_cast<std::int64_t>(order_.size()); };
  if (next_ == size() && ++epoch_ < options_.epochs && size() > 0) begin_epoch();
  if (next_ == size()) play();
  // What would be less than half a minibatch goes with the last one.
  const std::int64_t left = size() - next_;
  const std::int64_t take = left < options_.minibatch + options_.minibatch / 2 ? left : options_.minibatch;
  const auto rows =
      std::span(order_).subspan(static_cast<std::size_t>(next_), static_cast<std::size_t>(take));
  next_ += take;

  const ActorCriticOutput output = outputs(rows);
  const PpoBatch minibatch = batch(rows);
  PpoLoss loss = ppo_loss(output.logits, output.value, minibatch, coefficients(step));
  if (output.player_value.defined())
    loss.total =
        loss.total + mean(square(output.player_value - minibatch.target)) * (0.5 * options_.loss.value);
  backward(loss.total);
  if (options_.target_kl > 0 && loss.kl.item() > options_.target_kl) {
    next_ = size();
    epoch_ = options_.epochs;
  }
  const ClippedNorm clipped = optimizer_.measure_gradients();
  std::vector<Tensor> metrics;
  for (const Tensor& metric :
       {loss.total, clipped.norm, loss.policy, loss.value, loss.entropy, loss.kl, loss.clipped, loss.anchor})
    metrics.push_back(reshape(metric.detach(), {1}));
  return {.metrics = concat(metrics, 0), .grad_scale = clipped.factor};
}

void PpoTask::read(std::span<const float> metrics, StepRecord& record) {
  TrainTask::read(metrics, record);
  const auto at = [&](std::size_t i) { return static_cast<double>(metrics[i]); };
  health_.policy_loss = at(2);
  health_.value_loss = at(3);
  health_.entropy = at(4);
  health_.kl = at(5);
  health_.clipped = at(6);
  health_.anchor_kl = at(7);
  record.values = {{"entropy", health_.entropy},         {"kl", health_.kl},
                   {"clip fraction", health_.clipped},   {"explained variance", health_.explained_variance},
                   {"policy loss", health_.policy_loss}, {"value loss", health_.value_loss},
                   {"mean return", health_.mean_return}, {"games", static_cast<double>(health_.games)}};
  if (has_anchor_) record.values.emplace_back(options_.anchor_name + " kl", health_.anchor_kl);
  if (health_.player_explained_variance.has_value())
    record.values.emplace_back("explained variance (player)", *health_.player_explained_variance);
  if (options_.cost_limit.target > 0) {
    record.values.emplace_back("cost rate", health_.cost_rate);
    record.values.emplace_back("cost weight", health_.cost_weight);
  }
}

std::string PpoTask::settings() const {
  return Json{{"rollout_steps", options_.rollout_steps},
              {"minibatch", options_.minibatch},
              {"epochs", options_.epochs},
              {"games", environment_.games()},
              {"players", environment_.spec().players},
              {"actions", environment_.spec().actions},
              {"observation", environment_.spec().observation},
              {"seed", options_.seed},
              {"gamma", options_.advantage.gamma},
              {"gae_lambda", options_.advantage.lambda},
              {"clip_range", options_.loss.clip},
              {"value_coef", options_.loss.value},
              {"entropy_coef", options_.loss.entropy},
              {"final_entropy_coef", options_.final_entropy},
              {"kl_coef", options_.loss.anchor},
              {"final_kl_coef", options_.final_anchor.value_or(options_.loss.anchor)},
              {"kl_temperature", options_.loss.anchor_temperature},
              {"target_kl", options_.target_kl},
              {"normalize_advantages", options_.normalize_advantages},
              {"cost_limit", terms_of(options_.cost_limit)},
              {"optimizer", options_.optimizer.name},
              {"learning_rate", options_.optimizer.learning_rate},
              {"max_grad_norm", options_.optimizer.max_grad_norm},
              {"anchor", has_anchor_},
              {"reads_hidden", network_.reads_hidden()},
              {"league", league_ == nullptr ? Json() : parse_json<Json>(league_->settings(), "the league")}}
      .dump();
}

// Before costs were limited, and before anything hidden was read.
std::string PpoTask::earlier_settings() const {
  return Json{{"cost_limit", terms_of({})},
              {"final_kl_coef", options_.loss.anchor},
              {"kl_temperature", 1.0},
              {"reads_hidden", false}}
      .dump();
}

std::string PpoTask::state() const {
  const std::optional<double>& player = health_.player_explained_variance;
  return Json{{"ppo",
               {{"rollouts", health_.rollouts},
                {"games", health_.games},
                {"mean_return", health_.mean_return},
                {"explained_variance", health_.explained_variance},
                {"cost_weight", cost_limit_.state().multiplier},
                {"cost_sum", cost_limit_.state().sum},
                {"cost_rate", cost_limit_.state().rate},
                {"player_explained_variance", player.has_value() ? Json(*player) : Json()},
                {"epoch", epoch_},
                {"next", next_}}}}
      .dump();
}

void PpoTask::save(Checkpoint& checkpoint) {
  TrainTask::save(checkpoint);
  auto& tensors = checkpoint.tensors["rollout"];
  const std::vector<std::byte> games = environment_.state();
  if (league_ != nullptr) league_->save(checkpoint.tensors["league"]);
  tensors["games"] = Tensor::from_bytes(games, {static_cast<std::int64_t>(games.size())}, DType::u8);
  keep(tensors, "returns", collector_.running_returns());
  keep(tensors, "observations", observations_);
  keep(tensors, "hidden", hidden_);
  keep(tensors, "legal", legal_);
  keep(tensors, "log_probabilities", log_probabilities_);
  keep(tensors, "anchor", anchor_);
  keep(tensors, "advantage", advantage_);
  keep(tensors, "target", target_);
  keep(tensors, "actions", actions_);
  keep(tensors, "order", order_);
}

void PpoTask::restore(const SavedCheckpoint& saved, TrainProgress& progress) {
  TrainTask::restore(saved, progress);
  const Json json = parse_json<Json>(saved.state(), saved.state_path()).at("ppo");
  json.at("rollouts").get_to(health_.rollouts);
  json.at("games").get_to(health_.games);
  json.at("mean_return").get_to(health_.mean_return);
  json.at("explained_variance").get_to(health_.explained_variance);
  if (json.contains("player_explained_variance") && !json.at("player_explained_variance").is_null())
    health_.player_explained_variance = json.at("player_explained_variance").get<double>();
  const CostLimit::State fresh;  // of checkpoints that are older than the limit
  cost_limit_.restore({.multiplier = json.value("cost_weight", fresh.multiplier),
                       .sum = json.value("cost_sum", fresh.sum),
                       .rate = json.value("cost_rate", fresh.rate)});
  health_.cost_weight = cost_limit_.multiplier();
  health_.cost_rate = std::max(0.0, cost_limit_.state().rate);
  json.at("epoch").get_to(epoch_);
  json.at("next").get_to(next_);
  const std::map<std::string, Tensor> tensors = saved.tensors("rollout");
  const std::vector<std::uint8_t> games = kept<std::uint8_t>(tensors, "games");
  environment_.restore(std::as_bytes(std::span(games)));
  if (league_ != nullptr) league_->restore(saved.tensors("league"));
  collector_.set_running_returns(kept<float>(tensors, "returns"));
  observations_ = kept<float>(tensors, "observations");
  hidden_ = kept<float>(tensors, "hidden");
  legal_ = kept<float>(tensors, "legal");
  log_probabilities_ = kept<float>(tensors, "log_probabilities");
  anchor_ = kept<float>(tensors, "anchor");
  advantage_ = kept<float>(tensors, "advantage");
  target_ = kept<float>(tensors, "target");
  actions_ = kept<std::int64_t>(tensors, "actions");
  order_ = kept<std::int64_t>(tensors, "order");
}

}  // namespace ingot
