#include "ingot/forecast/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/fault.h"
#include "ingot/base/rng.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/device_config.h"
#include "ingot/core/transfer.h"
#include "ingot/data/shuffle.h"
#include "ingot/forecast/batch_upload.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/ema.h"
#include "ingot/optim/optimizer.h"
#include "ingot/weights/open.h"

namespace ingot::forecast {
namespace {

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

using TensorMap = std::map<std::string, Tensor>;

TensorMap weights_of(ForecastModel& model) {
  TensorMap weights;
  for (const auto& [name, parameter] : named_parameters(model)) weights[name] = parameter->value.detach();
  return weights;
}

void set_weights(ForecastModel& model, const TensorMap& weights) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : named_parameters(model))
    copy_(parameter->value, to(weights.at(name), model.device()));
}

// With weights that are drawn, or those of the model to begin from.
std::unique_ptr<ForecastModel> first_model(const FitConfig& config, Device device) {
  if (!config.from.empty()) {
    return ForecastModel::from_weights(config.model, *open_weights(weights_path(config.from)),
                                       {.dtype = DType::f32, .device = device});
  }
  InitSource source(config.seed, DType::f32, device);
  return make_forecast_model(config.model, source);
}

// The state of one fit.
struct Fit {
  const FitConfig& config;
  const SeriesTable& table;
  const FitHooks& hooks;
  const FitSaving& saving;
  const DataSplit& parts;
  ForecastModel& model;
  std::vector<Parameter*> all;
  Adam optimizer;
  BatchUpload upload;
  std::array<Download, 2> losses;
  std::optional<Ema> ema;
  TensorMap best;
  FitProgress progress;
  std::deque<std::int64_t> running = {};  // of each step whose loss was not read yet, the windows
  Stopwatch in_epoch, since_save;

  // Of one pass through the windows.
  std::int64_t pass_batches() const {
    const std::int64_t n = parts.train.size(), b = config.batch_size;
    return config.drop_last && n >= b ? n / b : (n + b - 1) / b;
  }
  // Of one epoch: as many passes as make min_epoch_steps.
  std::int64_t batches() const {
    const std::int64_t once = pass_batches();
    return once * std::max<std::int64_t>(1, (config.min_epoch_steps + once - 1) / once);
  }
  std::int64_t steps() const {
    return static_cast<std::int64_t>(progress.epochs.size()) * batches() + progress.batch;
  }

  Download& loss_of_step(std::int64_t step) { return losses[static_cast<std::size_t>(step % 2)]; }

  // Puts a step into the device's queue. The CPU has done it then.
  void start_step(std::int64_t epoch, double factor) {
    const auto ahead = static_cast<std::int64_t>(running.size()), step = steps() + ahead;
    const std::vector<std::int64_t> windows = windows_of(epoch, progress.batch + ahead);
    const RandomScope random(config.seed, mix_stream(kDropoutStream, static_cast<std::uint64_t>(step)));
    const Batch batch = parts.train.batch(windows), sent = upload.send(batch);
    optimizer.zero_grad();
    const Tensor loss = loss_of(model(sent.input), sent, measured_targets(batch), config.loss);
    backward(loss);
    StepOptions options{.lr_scale = factor};
    if (config.clip_grad_norm > 0)
      options.grad_scale = clip_by_global_norm(all, config.clip_grad_norm).factor;
    optimizer.step(options);
    if (ema.has_value()) ema->update();
    loss_of_step(step).start(loss.detach());
    running.push_back(static_cast<std::int64_t>(windows.size()));
  }

  // Waits for the oldest step that runs, and takes it into the progress.
  void finish_step(double factor) {
    const double value = loss_of_step(steps()).wait().item();
    if (!std::isfinite(value)) {
      throw NonFinite(fmt::format("epoch {}, step {}", progress.epochs.size() + 1, steps() + 1),
                      fmt::format("the training loss is {}; try a smaller learning_rate (now {})", value,
                                  config.learning_rate * factor));
    }
    fault_point("forecast.step");
    progress.loss_sum += value * static_cast<double>(running.front());
    running.pop_front();
    ++progress.batch;
    if (hooks.on_step) hooks.on_step(steps(), batches() * config.epochs, value);
  }

  // The windows of one batch of an epoch; every pass has an order of its own.
  std::vector<std::int64_t> windows_of(std::int64_t epoch, std::int64_t batch) const {
    const std::int64_t begin = batch % pass_batches() * config.batch_size,
                       end = std::min(begin + config.batch_size, parts.train.size());
    const data::Permutation order(static_cast<std::uint64_t>(parts.train.size()), config.seed,
                                  static_cast<std::uint64_t>((epoch * batches() + batch) / pass_batches()));
    std::vector<std::int64_t> windows;
    for (std::int64_t i = begin; i < end; ++i)
      windows.push_back(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
    return windows;
  }

  // Runs the rest of an epoch, and takes it into the progress.
  void run_epoch() {
    const auto index = static_cast<std::int64_t>(progress.epochs.size());
    const double factor = schedule_factor(config, index);
    in_epoch.restart();
    model.set_training(true);
    // On a device that works beside the host, the next step is in its queue before this one's loss is read.
    const std::size_t most = backend(model.device()).capabilities().streams ? 2 : 1;
    while (progress.batch < batches()) {
      while (running.size() < most && progress.batch + std::ssize(running) < batches())
        start_step(index, factor);
      finish_step(factor);
      if (progress.batch == batches() || !save_is_due()) continue;
      while (!running.empty()) finish_step(factor);  // the weights are those behind all of them
      save();
    }
    model.set_training(false);
    const std::int64_t seen =
        batches() / pass_batches() * std::min(pass_batches() * config.batch_size, parts.train.size());
    EpochReport report{.epoch = index + 1,
                       .train_loss = progress.loss_sum / static_cast<double>(seen),
                       .learning_rate = config.learning_rate * factor};
    if (ema.has_value()) ema->swap();
    report.validation_loss = mean_loss(model, parts.validation, config.loss);
    report.seconds = progress.seconds + in_epoch.seconds();
    take(report);
    if (ema.has_value()) ema->swap();
    if (save_is_due()) save();
  }

  void take(EpochReport report) {
    // The weights of a tie are kept, as in the published code.
    report.best = report.epoch == 1 || report.validation_loss <= progress.best_validation_loss;
    if (report.best) {
      progress.best_epoch = report.epoch;
      progress.best_validation_loss = report.validation_loss;
      if (config.keep == "best") keep();
    }
    progress.epochs.push_back(report);
    progress.batch = 0;
    progress.loss_sum = progress.seconds = 0;
    in_epoch.restart();
  }

  void keep() {
    for (const auto& [name, weight] : weights_of(model)) best[name] = clone(weight);
  }

  // Since the least validation loss was first reached: weights that no longer move tie for ever.
  std::int64_t epochs_without_gain() const {
    const auto first_best = std::ranges::min_element(progress.epochs, {}, &EpochReport::validation_loss);
    return std::max<std::int64_t>(0, progress.epochs.end() - first_best - 1);
  }

  FitEnd run() {
    while (true) {
      const auto done = static_cast<std::int64_t>(progress.epochs.size());
      if (done == config.epochs) return FitEnd::finished;
      if (config.patience > 0 && epochs_without_gain() >= config.patience) return FitEnd::early;
      run_epoch();
      if (!hooks.on_epoch || !hooks.on_epoch(progress.epochs.back())) continue;
      if (has_fit_checkpoint(saving.directory)) save();
      return FitEnd::stopped;
    }
  }

  bool save_is_due() const {
    return !saving.directory.empty() && since_save.seconds() >= saving.every_seconds;
  }
  void save() {
    FitCheckpoint checkpoint{progress, weights_of(model), best, optimizer.state(), {}};
    if (ema.has_value()) checkpoint.ema = ema->state();
    checkpoint.progress.seconds += in_epoch.seconds();
    save_fit_checkpoint(saving.directory, FitIdentity(config, table), checkpoint);
    since_save.restart();
  }
  void resume() {
    if (saving.directory.empty()) return;
    const auto checkpoint = load_fit_checkpoint(saving.directory, FitIdentity(config, table), table.source);
    if (!checkpoint.has_value()) return;
    progress = checkpoint->progress;
    set_weights(model, checkpoint->weights);
    best = checkpoint->best;
    optimizer.load_state(checkpoint->optimizer);
    if (ema.has_value()) ema->load_state(checkpoint->ema);
    if (hooks.on_resume) hooks.on_resume(progress);
  }
};

void check_saving(const FitSaving& saving) {
  INGOT_CHECK(saving.resume || !has_fit_checkpoint(saving.directory),
              IoError(saving.directory,
                      "holds a fit that was not finished; go on with it (--resume), or remove "
                      "the directory to begin anew"));
}

}  // namespace

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

FitConfig completed(FitConfig config, const SeriesTable& table) {
  const auto follows = [](const char* key, std::int64_t& given, std::int64_t unset, std::int64_t found,
                          const char* what) {
    INGOT_CHECK(given == unset || given == found,
                InvalidConfig(key, fmt::format("is {}, but {} {}; leave the key out", given, what, found)));
    given = found;
  };
  const ForecastModelConfig unset;
  follows("channels", config.model.channels, unset.channels,
          static_cast<std::int64_t>(table.column_names.size()), "the table's columns of values are");
  follows(
      "time_features", config.model.time_features, unset.time_features,
      config.use_time_features ? static_cast<std::int64_t>(time_feature_names(table.frequency).size()) : 0,
      "the calendar features of its frequency are");
  config.validate();
  return config;
}

FitResult fit(FitConfig given, const SeriesTable& table, const FitHooks& hooks, const FitSaving& saving) {
  check_saving(saving);
  FitResult result;
  result.config = completed(std::move(given), table);
  const FitConfig& config = result.config;
  const kernels::MatmulPrecisionScope precision(kernels::parse_matmul_precision(config.matmul_precision));
  const DataSplit parts =
      split_windows(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  result.model = first_model(config, choose_device(config.device));
  ForecastModel& model = *result.model;
  const std::vector<Parameter*> all = parameters(model);
  Fit state{.config = config,
            .table = table,
            .hooks = hooks,
            .saving = saving,
            .parts = parts,
            .model = model,
            .all = all,
            .optimizer = Adam(all, AdamConfig{.learning_rate = config.learning_rate}),
            .upload = BatchUpload(model.device()),
            .losses = {Download({}, DType::f32, model.device()), Download({}, DType::f32, model.device())},
            .ema = {},
            .best = {},
            .progress = {},
            .in_epoch = {},
            .since_save = {}};
  if (config.ema_decay > 0) state.ema.emplace(all, EmaConfig{.decay = config.ema_decay, .warmup = true});
  if (saving.resume) state.resume();
  result.end = state.run();
  if (config.keep == "best") {
    set_weights(model, state.best);
  } else if (state.ema.has_value()) {
    state.ema->swap();
  }
  model.set_training(false);  // the weights may have changed since
  result.epochs = std::move(state.progress.epochs);
  result.best_epoch = state.progress.best_epoch;
  result.best_validation_loss = state.progress.best_validation_loss;
  return result;
}

void check_fit(FitConfig given, const SeriesTable& table, const FitSaving& saving) {
  check_saving(saving);
  const FitConfig config = completed(std::move(given), table);
  choose_device(config.device);
  split_windows(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  if (config.from.empty()) return;
  const auto weights = open_weights(weights_path(config.from));
  ForecastModel::architecture_check(config.model, *weights).require(weights->location());
}

SeriesTable read_data(const FitConfig& config) {
  INGOT_CHECK(!config.data.empty(), InvalidConfig("data", "is missing; give the path of a CSV file"));
  return read_series(config.data, config.table);
}

FitResult fit(FitConfig config, const FitHooks& hooks) {
  const SeriesTable table = read_data(config);
  return fit(std::move(config), table, hooks);
}

}  // namespace ingot::forecast
