#include "ingot/forecast/fit_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/rng.h"
#include "ingot/base/scope.h"
#include "ingot/base/shuffle.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kDropoutStream = 0xD207047;  // apart from the streams of parameters and of shuffles

// The targets of a batch that were measured, counted on the host.
double measured_targets(const Batch& batch) {
  return batch.measured.defined() ? sum(batch.measured).item() : static_cast<double>(batch.target.numel());
}

// The mean over the `measured` targets; 0 where none was.
Tensor loss_of(const Tensor& forecast, const Batch& batch, double measured, const std::string& loss) {
  const Tensor& target = batch.target;
  // Only the targets count: they stand first.
  const Tensor y =
      forecast.dim(1) == target.dim(1) ? forecast : contiguous(slice(forecast, 1, 0, target.dim(1)));
  const auto loss_between = [&](const Tensor& a, const Tensor& b, Reduction reduction) {
    return loss == "mae" ? l1_loss(a, b, reduction) : mse_loss(a, b, reduction);
  };
  if (!batch.measured.defined()) return loss_between(y, target, Reduction::mean);
  return loss_between(y * batch.measured, target * batch.measured, Reduction::sum) *
         (1 / std::max(1.0, measured));
}

Json progress_json(const FitProgress& p) {
  return {{"epochs", to_json(p.epochs)},
          {"best_epoch", p.best_epoch},
          {"best_validation_loss", p.best_validation_loss},
          {"batch", p.batch},
          {"loss_sum", p.loss_sum},
          {"seconds", p.seconds}};
}

FitProgress read_progress(const Json& json) {
  FitProgress p;
  p.epochs = read_epochs(json.at("epochs"));
  json.at("best_epoch").get_to(p.best_epoch);
  json.at("best_validation_loss").get_to(p.best_validation_loss);
  json.at("batch").get_to(p.batch);
  json.at("loss_sum").get_to(p.loss_sum);
  json.at("seconds").get_to(p.seconds);
  return p;
}

OptimizerConfig optimizer_of(const FitConfig& config) {
  return {.name = "adam",
          .learning_rate = config.learning_rate,
          .weight_decay = 0,
          .max_grad_norm = config.clip_grad_norm};
}

}  // namespace

FitTask::FitTask(const FitConfig& config, const SeriesTable& table, const DataSplit& parts,
                 ForecastModel& model, dist::Communicator* ranks)
    : config_(config),
      parts_(parts),
      model_(model),
      ranks_(ranks),
      source_(table.source),
      identity_(config, table),
      optimizer_(model, optimizer_of(config), fit_schedule(config, epoch_steps()), config.ema_decay,
                 shared_by(ranks, config.zero_stage)),
      upload_(model.device()) {
  if (ranks_ != nullptr)
    parallel_.emplace(*ranks_, optimizer_.parameters(), DataParallelOptions{.shard = optimizer_.shard()});
  model_.set_training(true);
}

// Of one pass through the windows.
std::int64_t FitTask::pass_steps() const {
  const std::int64_t n = parts_.train.size(), b = config_.batch_size;
  return config_.drop_last && n >= b ? n / b : (n + b - 1) / b;
}

// As many passes as make min_epoch_steps.
std::int64_t FitTask::epoch_steps() const {
  const std::int64_t once = pass_steps();
  return once * std::max<std::int64_t>(1, (config_.min_epoch_steps + once - 1) / once);
}

// The windows of a step; every pass has an order of its own.
std::vector<std::int64_t> FitTask::windows_of(std::int64_t step) const {
  const std::int64_t begin = step % pass_steps() * config_.batch_size,
                     end = std::min(begin + config_.batch_size, parts_.train.size());
  const Permutation order(static_cast<std::uint64_t>(parts_.train.size()), config_.seed,
                          static_cast<std::uint64_t>(step / pass_steps()));
  std::vector<std::int64_t> windows;
  for (std::int64_t i = begin; i < end; ++i)
    windows.push_back(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
  return windows;
}

// Forward and backward. Gives the part that these windows have in the loss of the step.
Tensor FitTask::learn(std::span<const std::int64_t> windows, std::int64_t step) {
  const std::uint64_t stream = mix_stream(kDropoutStream, static_cast<std::uint64_t>(step));
  const RandomScope random(config_.seed, ranks_ != nullptr
                                             ? mix_stream(stream, static_cast<std::uint64_t>(ranks_->rank()))
                                             : stream);
  const Batch batch = [&] {
    const Scope scope(ScopeKind::data, "make batch");
    return parts_.train.batch(windows);
  }();
  const double measured = measured_targets(batch);
  const Batch sent = upload_.send(batch);
  const Tensor loss = [&] {
    const Scope scope(ScopeKind::work, "forward");
    const Tensor mean = loss_of(model_(sent.input), sent, measured, config_.loss);
    return ranks_ != nullptr ? mean * (measured / std::max(1.0, measured_by_all(measured))) : mean;
  }();
  backward(loss);
  return loss.detach();
}

double FitTask::measured_by_all(double measured) const {
  std::vector<double> all(static_cast<std::size_t>(ranks_->size()));
  ranks_->all_gather(std::as_bytes(std::span(&measured, 1)), std::as_writable_bytes(std::span(all)));
  return std::accumulate(all.begin(), all.end(), 0.0);
}

// Each rank learns from its share of the windows, and all have the sum of the gradients.
Tensor FitTask::learn_together(std::span<const std::int64_t> windows, std::int64_t step) {
  const std::size_t ranks = static_cast<std::size_t>(ranks_->size()), size = windows.size();
  const auto begin_of = [&](std::size_t rank) { return size * rank / ranks; };
  std::vector<bool> contributes;
  std::vector<double> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t count = begin_of(rank + 1) - begin_of(rank);
    contributes.push_back(count > 0);
    shares.push_back(static_cast<double>(count) / static_cast<double>(size));
  }
  const auto own = static_cast<std::size_t>(ranks_->rank());
  ranks_->set_activity(fmt::format("step {}", step + 1));
  parallel_->begin(contributes, true);
  Tensor loss = Tensor::zeros({}, DType::f32, model_.device());
  if (contributes[own])
    loss = learn(windows.subspan(begin_of(own), begin_of(own + 1) - begin_of(own)), step);
  else
    measured_by_all(0);  // the others ask
  parallel_->end();
  parallel_->finish();
  return together(loss, shares);
}

// Gives the sum of the ranks' losses. What does not train is running statistics of batch norms: each rank has
// taken those of its own windows, and all get the mean of them, added in the order of ranks.
Tensor FitTask::together(const Tensor& loss, const std::vector<double>& shares) {
  const NoGrad no_grad;
  std::vector<Tensor> own{reshape(loss, {1})};
  std::vector<Parameter*> statistics;
  for (const auto& [name, parameter] : named_parameters(model_))
    if (!parameter->trainable()) statistics.push_back(parameter);
  for (const Parameter* parameter : statistics) own.push_back(reshape(parameter->value, {-1}));
  const Tensor row = concat(own, 0);
  const std::int64_t n = row.dim(0), rank = ranks_->rank();
  const Tensor rows = Tensor::zeros({ranks_->size(), n}, DType::f32, model_.device());
  copy_(narrow(rows, 0, rank, 1), reshape(row, {1, n}));
  parallel_->gather(rows);
  Tensor sum = Tensor::zeros({}, DType::f32, model_.device()), mean;
  for (std::int64_t i = 0; i < ranks_->size(); ++i) {
    const Tensor of_rank = reshape(narrow(rows, 0, i, 1), {n});
    sum = sum + reshape(narrow(of_rank, 0, 0, 1), {});
    const Tensor part = of_rank * shares[static_cast<std::size_t>(i)];
    mean = mean.defined() ? mean + part : part;
  }
  std::int64_t at = 1;
  for (const Parameter* parameter : statistics) {
    copy_(parameter->value, reshape(narrow(mean, 0, at, parameter->value.numel()), parameter->shape()));
    at += parameter->value.numel();
  }
  return sum;
}

StepWork FitTask::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  const std::vector<std::int64_t> windows = windows_of(step);
  StepWork work{.metrics = ranks_ != nullptr ? learn_together(windows, step) : learn(windows, step)};
  if (config_.clip_grad_norm > 0) work.grad_scale = optimizer_.measure_gradients().factor;
  return work;
}

void FitTask::read(std::span<const float> metrics, StepRecord& record) {
  TrainTask::read(metrics, record);
  progress_.loss_sum += record.loss * static_cast<double>(windows_of(record.step - 1).size());
  ++progress_.batch;
}

StepSize FitTask::step_size() const { return {.epochs = 1 / static_cast<double>(epoch_steps())}; }

std::optional<double> FitTask::evaluate(const StopCheck& /*stops*/) {
  model_.set_training(false);
  const double loss = mean_loss(model_, parts_.validation, config_.loss, ranks_);
  model_.set_training(true);
  INGOT_CHECK(std::isfinite(loss),
              NonFinite(fmt::format("epoch {}", progress_.epochs.size() + 1),
                        fmt::format("the validation loss is {}; {}", loss, divergence_advice())));
  return loss;
}

void FitTask::evaluated(const EvalRecord& record) {
  const std::int64_t passes = epoch_steps() / pass_steps(),
                     seen = passes * std::min(pass_steps() * config_.batch_size, parts_.train.size());
  const EpochReport report{.epoch = static_cast<std::int64_t>(progress_.epochs.size()) + 1,
                           .train_loss = progress_.loss_sum / static_cast<double>(seen),
                           .validation_loss = record.loss,
                           .learning_rate = optimizer_.learning_rate(record.step - 1),
                           .seconds = progress_.seconds + in_epoch_.seconds(),
                           .best = record.best};
  if (report.best) {
    progress_.best_epoch = report.epoch;
    progress_.best_validation_loss = report.validation_loss;
    if (config_.keep == "best") {
      for (const auto& [name, parameter] : named_parameters(model_))
        best_[name] = clone(parameter->value.detach());
    }
  }
  progress_.epochs.push_back(report);
  progress_.batch = 0;
  progress_.loss_sum = progress_.seconds = 0;
  in_epoch_.restart();
}

void FitTask::keep_chosen_weights() {
  const NoGrad no_grad;
  if (config_.keep == "best" && !best_.empty()) {
    for (const auto& [name, parameter] : named_parameters(model_))
      copy_(parameter->value, to(best_.at(name), model_.device()));
  } else if (optimizer_.has_ema()) {
    optimizer_.take_ema();
  }
  model_.set_training(false);
}

// A setting that did not exist when the fit was begun had what is its default now.
std::string FitTask::earlier_settings() const {
  return dump_json(to_json(FitConfig::defaults(config_.model.model, config_.model.horizon)));
}

std::string FitTask::state() const {
  FitProgress now = progress_;
  now.seconds += in_epoch_.seconds();
  return dump_json(Json{{"table_sha256", identity_.table}, {"progress", progress_json(now)}});
}

void FitTask::save(Checkpoint& checkpoint) {
  TrainTask::save(checkpoint);
  checkpoint.tensors["best"] = best_;
}

void FitTask::restore(const SavedCheckpoint& saved, TrainProgress& progress) {
  const Json json = parse_json<Json>(saved.state(), saved.state_path());
  INGOT_CHECK(
      json.at("table_sha256") == identity_.table,
      DataError(source_, 0, "",
                fmt::format("is not the table that the fit in {} was begun with; give that, or remove "
                            "the directory to begin anew",
                            saved.path())));
  progress_ = read_progress(json.at("progress"));
  TrainTask::restore(saved, progress);
  best_ = saved.tensors("best");
  progress = {};
  for (const EpochReport& epoch : progress_.epochs)
    progress.best.note(epoch.epoch * epoch_steps(), epoch.validation_loss, true);
  progress.step = static_cast<std::int64_t>(progress_.epochs.size()) * epoch_steps() + progress_.batch;
}

namespace {

// What a batch adds to the mean.
struct BatchLoss {
  double sum = 0, count = 0;
};

// Of each rank every size()-th; then those of all, in their order.
std::vector<BatchLoss> in_order(const std::vector<BatchLoss>& own, std::int64_t batches,
                                dist::Communicator* ranks) {
  if (ranks == nullptr) return own;
  const auto size = static_cast<std::size_t>(ranks->size()), n = static_cast<std::size_t>(batches),
             most = (n + size - 1) / size;
  std::vector<BatchLoss> padded = own, all(most * size), ordered;
  padded.resize(most);
  ranks->all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < n; ++i) ordered.push_back(all[i % size * most + i / size]);
  return ordered;
}

}  // namespace

double mean_loss(ForecastModel& model, const WindowSet& windows, const std::string& loss,
                 dist::Communicator* ranks) {
  const NoGrad no_grad;
  BatchUpload upload(model.device());
  std::vector<Tensor> losses;  // read when all are under way
  std::vector<double> counts;
  windows.for_each_batch(
      [&](std::int64_t, const Batch& batch) {
        const double measured = measured_targets(batch);
        const Batch sent = upload.send(batch);
        losses.push_back(loss_of(model(sent.input), sent, measured, loss));
        // In windows: one of which all was measured counts 1.
        counts.push_back(measured * static_cast<double>(batch.target.dim(0)) /
                         static_cast<double>(batch.target.numel()));
      },
      ranks != nullptr ? ranks->rank() : 0, ranks != nullptr ? ranks->size() : 1);
  std::vector<BatchLoss> own;
  for (std::size_t i = 0; i < losses.size(); ++i)
    own.push_back({.sum = losses[i].item() * counts[i], .count = counts[i]});
  BatchLoss total;
  for (const BatchLoss& batch : in_order(own, windows.batches(), ranks)) {
    total.sum += batch.sum;
    total.count += batch.count;
  }
  return total.sum / total.count;
}

}  // namespace ingot::forecast
