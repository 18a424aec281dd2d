#include "ingot/rl/ppo_task.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/validated.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/rl/gathered_rows.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// What learn() gives, and the estimate of the KL divergence in it.
constexpr std::int64_t kMetrics = 7;
constexpr std::size_t kKl = 4;

// What is of games, one by one, in a checkpoint: of one process with the rest, of ranks in a file of theirs.
constexpr const char *kGames = "games", *kReturns = "returns";
constexpr const char* kOfLeague[] = {"begun", "seats", "learners"};
std::vector<std::byte> bytes_of(const Tensor& x) {
  const auto bytes = std::span(x.view().as<std::byte>(), x.nbytes());
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

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
                 ActorCritic* anchor, League* league, dist::Communicator* ranks)
    : environment_(environment),
      network_(network),
      options_(validated(options)),
      has_anchor_(anchor != nullptr),
      league_(league),
      ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr),
      collector_(environment, network, anchor, league),
      optimizer_(network.module(), options.optimizer, options.schedule, 0,
                 shared_by(ranks, options.zero_stage)),
      cost_limit_(options.cost_limit) {
  INGOT_CHECK(options.cost_limit.target == 0 || !environment.costs().costs.empty(),
              InvalidConfig("target", "is given, but the game tells no costs that could be limited"));
  if (ranks_ != nullptr)
    parallel_.emplace(*ranks_, optimizer_.parameters(), DataParallelOptions{.shard = optimizer_.shard()});
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
  const Totals totals = of_all_ranks({.games_ended = static_cast<double>(rollout.games_ended),
                                      .returns = rollout.returns,
                                      .costs = rollout.costs,
                                      .occasions = rollout.occasions});
  if (options_.cost_limit.target > 0) limit_costs(totals);
  if (league_ != nullptr) league_->note(network_, health_.rollouts);
  health_.games += std::llround(totals.games_ended);
  if (totals.games_ended > 0) health_.mean_return = totals.returns / totals.games_ended;
  epoch_ = 0;
  begin_epoch();
}

PpoTask::Totals PpoTask::of_all_ranks(Totals own) const {
  if (ranks_ == nullptr) return own;
  std::vector<Totals> all(static_cast<std::size_t>(ranks_->size()));
  ranks_->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  Totals sum;
  for (const Totals& one : all) {
    sum.games_ended += one.games_ended;
    sum.returns += one.returns;
    sum.costs += one.costs;
    sum.occasions += one.occasions;
  }
  return sum;
}

void PpoTask::limit_costs(const Totals& totals) {
  if (totals.occasions == 0) return;
  health_.cost_rate = totals.costs / totals.occasions;
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
  Values values;
  for (std::size_t i = 0; i < rollout.size(); ++i) {
    if (advantages.known[i] == 0) continue;
    append_row(observations_, rollout.observations, i, width);
    append_row(legal_, rollout.legal, i, choices);
    if (!rollout.hidden.empty()) append_row(hidden_, rollout.hidden, i, hidden);
    if (has_anchor_) append_row(anchor_, rollout.anchor, i, choices);
    if (!rollout.player_values.empty()) values.player.push_back(rollout.player_values[i]);
    values.critic.push_back(rollout.decisions[i].value);
    values.moments.push_back(rollout.moments[i]);
    actions_.push_back(rollout.actions[i]);
    log_probabilities_.push_back(rollout.log_probabilities[i]);
    advantage_.push_back(advantages.advantage[i]);
    target_.push_back(advantages.target[i]);
  }
  if (ranks_ != nullptr) gather_known(values);
  health_.explained_variance = explained(target_, values.critic);
  if (!values.player.empty()) health_.player_explained_variance = explained(target_, values.player);
}

// Every rank gets the decisions of all, in the order of time.
void PpoTask::gather_known(Values& values) {
  const GatheredRows rows(*ranks_, values.moments);
  const EnvironmentSpec& spec = environment_.spec();
  const auto choices = static_cast<std::size_t>(spec.actions);
  rows.gather(observations_, static_cast<std::size_t>(spec.observation_size()));
  rows.gather(legal_, choices);
  if (network_.reads_hidden()) rows.gather(hidden_, static_cast<std::size_t>(spec.hidden_size()));
  if (has_anchor_) rows.gather(anchor_, choices);
  if (ranks_->any(!values.player.empty())) rows.gather(values.player, 1);
  for (auto* floats : {&log_probabilities_, &advantage_, &target_, &values.critic}) rows.gather(*floats, 1);
  rows.gather(actions_, 1);
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

// Of a minibatch.
std::vector<float> PpoTask::advantages_of(std::span<const std::int64_t> rows) const {
  std::vector<float> advantage;
  advantage.reserve(rows.size());
  for (const std::int64_t row : rows) advantage.push_back(advantage_[static_cast<std::size_t>(row)]);
  if (options_.normalize_advantages && rows.size() > 1) normalize(advantage);
  return advantage;
}

PpoBatch PpoTask::batch(std::span<const std::int64_t> rows, std::span<const float> advantage) const {
  const Device device = parameters(network_.module()).front()->value.device();
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

StepWork PpoTask::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  const auto size = [&] { return static_cast<std::int64_t>(order_.size()); };
  if (next_ == size() && ++epoch_ < options_.epochs && size() > 0) begin_epoch();
  if (next_ == size()) play();
  // What would be less than half a minibatch goes with the last one.
  const std::int64_t left = size() - next_;
  const std::int64_t take = left < options_.minibatch + options_.minibatch / 2 ? left : options_.minibatch;
  const auto rows =
      std::span(order_).subspan(static_cast<std::size_t>(next_), static_cast<std::size_t>(take));
  next_ += take;

  std::vector<Tensor> metrics = learn(rows, step);
  if (options_.target_kl > 0 && metrics[kKl].item() > options_.target_kl) {
    next_ = size();
    epoch_ = options_.epochs;
  }
  const ClippedNorm clipped = optimizer_.measure_gradients();
  metrics.insert(metrics.begin() + 1, reshape(clipped.norm, {1}));
  return {.metrics = concat(metrics, 0), .grad_scale = clipped.factor};
}

// Forward and backward. Gives the metrics, without the gradients' norm.
std::vector<Tensor> PpoTask::learn(std::span<const std::int64_t> rows, std::int64_t step) {
  const std::vector<float> advantage = advantages_of(rows);
  if (ranks_ == nullptr) return learn_from(rows, advantage, 1, step);
  ranks_->set_activity(fmt::format("step {}", step + 1));
  const Tensor sums = parallel_->learn_shares(rows.size(), kMetrics, [&](dist::Slice own, double share) {
    return concat(learn_from(rows.subspan(own.begin, own.size()),
                             std::span(advantage).subspan(own.begin, own.size()), share, step),
                  0);
  });
  std::vector<Tensor> metrics;
  for (std::int64_t i = 0; i < kMetrics; ++i) metrics.push_back(narrow(sums, 0, i, 1));
  return metrics;
}

// `share`: what these rows are of the minibatch, by which gradients and metrics are multiplied.
std::vector<Tensor> PpoTask::learn_from(std::span<const std::int64_t> rows, std::span<const float> advantage,
                                        double share, std::int64_t step) {
  const ActorCriticOutput output = outputs(rows);
  const PpoBatch minibatch = batch(rows, advantage);
  PpoLoss loss = ppo_loss(output.logits, output.value, minibatch, coefficients(step));
  if (output.player_value.defined())
    loss.total =
        loss.total + mean(square(output.player_value - minibatch.target)) * (0.5 * options_.loss.value);
  const auto of_minibatch = [share](const Tensor& mean) { return share == 1 ? mean : mean * share; };
  loss.total = of_minibatch(loss.total);
  backward(loss.total);
  const NoGrad no_grad;
  std::vector<Tensor> metrics;
  metrics.push_back(reshape(loss.total.detach(), {1}));
  for (const Tensor& metric : {loss.policy, loss.value, loss.entropy, loss.kl, loss.clipped, loss.anchor})
    metrics.push_back(reshape(of_minibatch(metric.detach()), {1}));
  return metrics;
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
              {"games", environment_.share().all},
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
  std::map<std::string, Tensor> league;
  if (league_ != nullptr) league_->save(league);
  if (ranks_ != nullptr) {
    checkpoint.shards[kGames] = named_by_share(game_arrays(league), environment_.share());
  } else {
    const std::vector<std::byte> games = environment_.state();
    tensors[kGames] = Tensor::from_bytes(games, {std::ssize(games)}, DType::u8);
    keep(tensors, kReturns, collector_.running_returns());
  }
  checkpoint.tensors["league"] = std::move(league);
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

// Of this process' games, which the league's tensors then lack.
GameArrays PpoTask::game_arrays(std::map<std::string, Tensor>& league) const {
  GameArrays arrays;
  add_game_arrays(arrays, kGames, environment_.state(), environment_.state_sizes());
  arrays[kReturns] = bytes_of(collector_.running_returns());
  for (const char* name : kOfLeague) {
    if (!league.contains(name)) continue;
    arrays[name] = bytes_of(league.at(name));
    league.erase(name);
  }
  return arrays;
}

// Of this process' games, whoever played them before.
GameArrays PpoTask::saved_games(const SavedCheckpoint& saved, std::map<std::string, Tensor>& league) const {
  GameArrays all = of_all_shares(saved.shards(kGames));
  if (all.empty()) {  // one process wrote it
    const std::map<std::string, Tensor> rollout = saved.tensors("rollout");
    add_game_arrays(all, kGames, bytes_of(kept<std::uint8_t>(rollout, kGames)), environment_.state_sizes());
    all[kReturns] = bytes_of(kept<float>(rollout, kReturns));
    for (const char* name : kOfLeague)
      if (league.contains(name)) all[name] = bytes_of(league.at(name));
  }
  return of_share(all, environment_.share(), saved.path());
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
  std::map<std::string, Tensor> league = saved.tensors("league");
  const GameArrays games = saved_games(saved, league);
  environment_.restore(join_game_arrays(games, kGames, environment_.state_sizes().size()));
  collector_.set_running_returns(values_of<float>(games.at(kReturns)));
  if (league_ != nullptr) {
    const auto put = [&]<class T>(const char* name, T /*kind*/) {
      const std::vector<T> values = values_of<T>(games.at(name));
      league[name] = Tensor::from(values, {std::ssize(values)});
    };
    put("begun", std::int64_t{});
    put("seats", std::int32_t{});
    put("learners", std::int32_t{});
    league_->restore(league);
  }
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
