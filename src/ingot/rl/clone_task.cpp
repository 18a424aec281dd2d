#include "ingot/rl/clone_task.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/scope.h"
#include "ingot/mahjong/symmetry.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using mahjong::LabelledDecision;

// In the order of the metrics behind loss and gradient norm.
constexpr std::array<const char*, 6> kCloneMetrics = {"policy loss", "value loss",  "rank loss",
                                                      "tenpai loss", "danger loss", "accuracy"};

Device net_device(DualPoolNet& net) { return parameters(ModuleRef(net)).front()->value.device(); }

// The first decisions of an index, the same in every run.
std::vector<LabelledDecision> first_decisions(const mahjong::GameIndex& index, std::int64_t at_most) {
  const std::int64_t count = std::min(at_most, index.decisions());
  if (count <= 0) return {};
  mahjong::DecisionStream stream(index, {.permute_suits = false});
  const auto taken = stream.next(static_cast<std::size_t>(count));
  return {taken.begin(), taken.end()};
}

// Losses are f32 whatever the network's dtype.
DualPoolOutput widened(const DualPoolOutput& x) {
  return {.policy = to(x.policy, DType::f32),
          .value = to(x.value, DType::f32),
          .rank = to(x.rank, DType::f32),
          .tenpai = to(x.tenpai, DType::f32),
          .danger = to(x.danger, DType::f32)};
}

double share(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

CloneTask::CloneTask(DualPoolNet& net, const mahjong::GameIndex& games, const mahjong::GameIndex& validation,
                     std::int64_t validation_decisions, const CloneOptions& options,
                     dist::Communicator* ranks)
    : net_(net),
      options_(options),
      encoding_(mahjong_encoding(net.config, "the network")),
      digest_(games.digest()),
      decisions_per_epoch_(static_cast<double>(std::max<std::int64_t>(1, games.decisions()))),
      stream_(games, options.stream),
      validation_(first_decisions(validation, validation_decisions)),
      optimizer_(ModuleRef(net), options.optimizer, options.schedule, options.ema_decay,
                 shared_by(ranks, options.zero_stage)),
      ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr) {
  if (ranks_ != nullptr)
    parallel_.emplace(*ranks_, optimizer_.parameters(), DataParallelOptions{.shard = optimizer_.shard()});
  INGOT_CHECK(options.batch_size > 0,
              InvalidConfig("batch_size", fmt::format("must be positive, got {}", options.batch_size)));
}

CloneTask::Losses CloneTask::losses(const MahjongExamples& e) const {
  const DualPoolOutput output = widened(net_(e.observation, e.rank_context));
  const std::int64_t batch = e.action.dim(0);
  Losses l;
  l.log_policy = masked_log_softmax(output.policy, e.legal);
  l.policy = neg(mean(gather_within(l.log_policy, 1, reshape(e.action, {batch, 1}))));
  l.value = mse_loss(reshape(output.value, {batch}), e.value) * 0.5;
  l.rank = cross_entropy(output.rank, e.order);
  l.tenpai = bce_with_logits_loss(output.tenpai, e.tenpai);
  l.danger = bce_with_logits_loss(output.danger, e.danger);
  const CloneWeights& w = options_.weights;
  l.total = l.policy + l.value * w.value + l.rank * w.rank + l.tenpai * w.tenpai + l.danger * w.danger;
  l.right = mean(to(equal(argmax(l.log_policy.detach()), e.action), DType::f32));
  return l;
}

// Forward and backward. Gives the metrics, without the gradients' norm.
Tensor CloneTask::learn(std::span<const LabelledDecision> decisions, double share) {
  const Losses l = losses(mahjong_examples(decisions, encoding_, net_device(net_)));
  const auto of_batch = [share](const Tensor& mean) { return share == 1 ? mean : mean * share; };
  backward(of_batch(l.total));
  const NoGrad no_grad;
  std::vector<Tensor> metrics;
  for (const Tensor& metric : {l.total, l.policy, l.value, l.rank, l.tenpai, l.danger, l.right})
    metrics.push_back(reshape(of_batch(metric.detach()), {1}));
  return concat(metrics, 0);
}

StepWork CloneTask::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  const auto decisions = [&] {
    const Scope scope(ScopeKind::data, "read decisions");
    return stream_.next(static_cast<std::size_t>(options_.batch_size));
  }();
  position_ = stream_.position();
  if (ranks_ != nullptr) ranks_->set_activity(fmt::format("step {}", step + 1));
  const auto n = static_cast<std::int64_t>(kCloneMetrics.size());
  const Tensor learned =
      ranks_ == nullptr
          ? learn(decisions, 1)
          : parallel_->learn_shares(decisions.size(), n + 1, [&](dist::Slice own, double share) {
              return learn(std::span(decisions).subspan(own.begin, own.size()), share);
            });
  const ClippedNorm clipped = optimizer_.measure_gradients();
  const std::vector<Tensor> metrics{narrow(learned, 0, 0, 1), reshape(clipped.norm.detach(), {1}),
                                    narrow(learned, 0, 1, n)};
  return {.metrics = concat(metrics, 0), .grad_scale = clipped.factor};
}

void CloneTask::read(std::span<const float> metrics, StepRecord& record) {
  TrainTask::read(metrics, record);
  for (std::size_t i = 0; i < kCloneMetrics.size(); ++i)
    record.values.emplace_back(kCloneMetrics[i], static_cast<double>(metrics[i + 2]));
}

StepSize CloneTask::step_size() const {
  return {.epochs = static_cast<double>(options_.batch_size) / decisions_per_epoch_};
}

// Of how many decisions the best action is the same where the suits bear other names: one of the five other
// renamings for each.
std::int64_t CloneTask::suit_agreements(std::span<const LabelledDecision> decisions,
                                        std::span<const std::int64_t> best) const {
  const auto renaming = [](std::size_t i) {
    return mahjong::SuitPermutation::number(1 + static_cast<int>(i % 5));
  };
  std::vector<LabelledDecision> renamed;
  renamed.reserve(decisions.size());
  for (std::size_t i = 0; i < decisions.size(); ++i) renamed.push_back(decisions[i].permuted(renaming(i)));
  const MahjongExamples examples = mahjong_examples(renamed, encoding_, net_device(net_));
  const Tensor logits = to(net_.policy(net_.features(examples.observation)), DType::f32);
  const std::vector<std::int64_t> found =
      to(argmax(masked_log_softmax(logits, examples.legal)), kCpu).to_vector<std::int64_t>();
  std::int64_t same = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    same += found[i] == renaming(i).policy_index(static_cast<int>(best[i])) ? 1 : 0;
  return same;
}

CloneTask::Measured CloneTask::measure(std::span<const LabelledDecision> decisions) const {
  const Losses l = losses(mahjong_examples(decisions, encoding_, net_device(net_)));
  const std::vector<std::int64_t> best = to(argmax(l.log_policy), kCpu).to_vector<std::int64_t>();
  Measured m;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const std::size_t kind = mahjong::policy_kind(decisions[i].action);
    ++m.all[kind];
    m.right[kind] += best[i] == decisions[i].action ? 1 : 0;
  }
  m.same_in_other_suits = suit_agreements(decisions, best);
  const std::array<const Tensor*, 6> parts = {&l.policy, &l.value, &l.rank, &l.tenpai, &l.danger, &l.total};
  for (std::size_t i = 0; i < parts.size(); ++i)
    m.losses[i] = parts[i]->item() * static_cast<double>(decisions.size());
  return m;
}

// Of each rank every size()-th batch; then those of all, in their order.
std::vector<CloneTask::Measured> CloneTask::of_all_ranks(std::vector<Measured> own,
                                                         std::size_t batches) const {
  if (ranks_ == nullptr) return own;
  const auto ranks = static_cast<std::size_t>(ranks_->size());
  const std::size_t most = (batches + ranks - 1) / ranks;
  own.resize(most);
  std::vector<Measured> all(most * ranks), ordered;
  ranks_->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < batches; ++i) ordered.push_back(all[i % ranks * most + i / ranks]);
  return ordered;
}

std::optional<double> CloneTask::evaluate(const StopCheck& stops) {
  if (validation_.empty()) return std::nullopt;
  const NoGrad no_grad;
  const std::size_t size = static_cast<std::size_t>(options_.batch_size),
                    batches = (validation_.size() + size - 1) / size,
                    ranks = ranks_ != nullptr ? static_cast<std::size_t>(ranks_->size()) : 1,
                    rank = ranks_ != nullptr ? static_cast<std::size_t>(ranks_->rank()) : 0;
  std::vector<Measured> own;
  for (std::size_t first = 0; first < batches; first += ranks) {
    check_stop(stops);
    const std::size_t begin = (first + rank) * size;
    if (begin >= validation_.size()) continue;
    own.push_back(measure(std::span(validation_).subspan(begin, std::min(size, validation_.size() - begin))));
  }
  Measured sums;
  for (const Measured& batch : of_all_ranks(std::move(own), batches)) {
    for (std::size_t i = 0; i < sums.losses.size(); ++i) sums.losses[i] += batch.losses[i];
    for (std::size_t i = 0; i < sums.all.size(); ++i) {
      sums.right[i] += batch.right[i];
      sums.all[i] += batch.all[i];
    }
    sums.same_in_other_suits += batch.same_in_other_suits;
  }
  measured_.clear();
  for (double& loss : sums.losses) loss /= static_cast<double>(validation_.size());
  const std::int64_t right = std::accumulate(sums.right.begin(), sums.right.end(), std::int64_t{0});
  measured_.emplace_back("accuracy", share(right, std::ssize(validation_)));
  measured_.emplace_back("suit agreement", share(sums.same_in_other_suits, std::ssize(validation_)));
  for (std::size_t i = 0; i < 5; ++i) measured_.emplace_back(kCloneMetrics[i], sums.losses[i]);
  for (std::size_t kind = 0; kind < sums.all.size(); ++kind)
    if (sums.all[kind] > 0)
      measured_.emplace_back(fmt::format("accuracy/{}", mahjong::policy_kinds()[kind]),
                             share(sums.right[kind], sums.all[kind]));
  return sums.losses[5];
}

void CloneTask::read_evaluation(EvalRecord& record) const { record.values = measured_; }

std::string CloneTask::settings() const {
  const OptimizerConfig& o = options_.optimizer;
  return dump_json(Json{{"games", digest_},
                        {"batch_size", options_.batch_size},
                        {"seed", options_.stream.seed},
                        {"pool_games", options_.stream.pool_games},
                        {"reserve", options_.stream.reserve},
                        {"permute_suits", options_.stream.permute_suits},
                        {"value_weight", options_.weights.value},
                        {"rank_weight", options_.weights.rank},
                        {"tenpai_weight", options_.weights.tenpai},
                        {"danger_weight", options_.weights.danger},
                        {"lr_scheduler_type", options_.schedule_name},
                        {"optimizer", o.name},
                        {"learning_rate", o.learning_rate},
                        {"weight_decay", o.weight_decay},
                        {"max_grad_norm", o.max_grad_norm},
                        {"ema_decay", options_.ema_decay}});
}

std::string CloneTask::state() const {
  return dump_json(
      Json{{"stream", {{"epoch", position_.epoch}, {"pool", position_.pool}, {"next", position_.next}}}});
}

void CloneTask::restore(const SavedCheckpoint& saved, TrainProgress& progress) {
  TrainTask::restore(saved, progress);
  const Json json = parse_json<Json>(saved.state(), saved.state_path()).at("stream");
  json.at("epoch").get_to(position_.epoch);
  json.at("pool").get_to(position_.pool);
  json.at("next").get_to(position_.next);
  stream_.seek(position_);
}

}  // namespace ingot
