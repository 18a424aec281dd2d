#include "ingot/forecast/fit_task.h"

#include <algorithm>
#include <cmath>

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
                 ForecastModel& model)
    : config_(config),
      parts_(parts),
      model_(model),
      source_(table.source),
      identity_(config, table),
      optimizer_(model, optimizer_of(config), fit_schedule(config, epoch_steps()), config.ema_decay),
      upload_(model.device()) {
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

StepWork FitTask::gradients(std::int64_t step, const StopCheck& /*stops*/) {
  const RandomScope random(config_.seed, mix_stream(kDropoutStream, static_cast<std::uint64_t>(step)));
  const Batch batch = [&] {
    const Scope scope(ScopeKind::data, "make batch");
    return parts_.train.batch(windows_of(step));
  }();
  const Batch sent = upload_.send(batch);
  const Tensor loss = [&] {
    const Scope scope(ScopeKind::work, "forward");
    return loss_of(model_(sent.input), sent, measured_targets(batch), config_.loss);
  }();
  backward(loss);
  StepWork work{.metrics = loss.detach()};
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
  const double loss = mean_loss(model_, parts_.validation, config_.loss);
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

double mean_loss(ForecastModel& model, const WindowSet& windows, const std::string& loss) {
  const NoGrad no_grad;
  BatchUpload upload(model.device());
  std::vector<Tensor> losses;  // read when all are under way
  std::vector<double> counts;
  windows.for_each_batch([&](std::int64_t, const Batch& batch) {
    const double measured = measured_targets(batch);
    const Batch sent = upload.send(batch);
    losses.push_back(loss_of(model(sent.input), sent, measured, loss));
    // In windows: one of which all was measured counts 1.
    counts.push_back(measured * static_cast<double>(batch.target.dim(0)) /
                     static_cast<double>(batch.target.numel()));
  });
  double total = 0, count = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    total += losses[i].item() * counts[i];
    count += counts[i];
  }
  return total / count;
}

}  // namespace ingot::forecast
