#include "ingot/forecast/fit.h"

#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/rng.h"
#include "ingot/data/shuffle.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kEvaluationBatch = 256;
constexpr std::uint64_t kDropoutStream = 0xD207047;  // apart from the streams of parameters and of shuffles

Tensor loss_of(const Tensor& forecast, const Tensor& target, const std::string& loss, Reduction reduction) {
  // Only the targets count: they stand first.
  const Tensor y =
      forecast.dim(1) == target.dim(1) ? forecast : contiguous(slice(forecast, 1, 0, target.dim(1)));
  return loss == "mae" ? l1_loss(y, target, reduction) : mse_loss(y, target, reduction);
}

// The state of one fit.
struct Fit {
  const FitConfig& config;
  const FitHooks& hooks;
  const DataSplit& parts;
  ForecastModel& model;
  std::vector<Parameter*> all;
  Adam optimizer;
  std::vector<Tensor> best;
  std::int64_t steps = 0;

  std::int64_t batches() const {
    const std::int64_t n = parts.train.size(), b = config.batch_size;
    return config.drop_last && n >= b ? n / b : (n + b - 1) / b;
  }

  double step(std::span<const std::int64_t> windows, double factor, std::int64_t epoch) {
    const RandomScope random(config.seed, mix_stream(kDropoutStream, static_cast<std::uint64_t>(steps)));
    const Batch batch = parts.train.batch(windows);
    optimizer.zero_grad();
    const Tensor loss = loss_of(model(batch.input), batch.target, config.loss, Reduction::mean);
    backward(loss);
    StepOptions options{.lr_scale = factor};
    if (config.clip_grad_norm > 0)
      options.grad_scale = clip_by_global_norm(all, config.clip_grad_norm).factor;
    optimizer.step(options);
    const double value = loss.item();
    if (!std::isfinite(value)) {
      throw NonFinite(fmt::format("epoch {}, step {}", epoch + 1, steps + 1),
                      fmt::format("the training loss is {}; try a smaller learning_rate (now {})", value,
                                  config.learning_rate * factor));
    }
    ++steps;
    if (hooks.on_step) hooks.on_step(steps, batches() * config.epochs, value);
    return value;
  }

  EpochReport epoch(std::int64_t index) {
    const auto start = std::chrono::steady_clock::now();
    const double factor = schedule_factor(config, index);
    const data::Permutation order(static_cast<std::uint64_t>(parts.train.size()), config.seed,
                                  static_cast<std::uint64_t>(index));
    std::vector<std::int64_t> windows;
    double sum = 0, count = 0;
    model.set_training(true);
    for (std::int64_t b = 0; b < batches(); ++b) {
      const std::int64_t begin = b * config.batch_size,
                         end = std::min(begin + config.batch_size, parts.train.size());
      windows.clear();
      for (std::int64_t i = begin; i < end; ++i) {
        windows.push_back(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
      }
      sum += step(windows, factor, index) * static_cast<double>(end - begin);
      count += static_cast<double>(end - begin);
    }
    model.set_training(false);
    EpochReport report{
        .epoch = index + 1, .train_loss = sum / count, .learning_rate = config.learning_rate * factor};
    report.validation_loss = mean_loss(model, parts.validation, config.loss);
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

  void keep() {
    best.clear();
    for (const Parameter* p : all) best.push_back(clone(p->value.detach()));
  }
  void restore() const {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < all.size(); ++i) copy_(all[i]->value, best[i]);
  }
};

}  // namespace

double mean_loss(ForecastModel& model, const WindowSet& windows, const std::string& loss) {
  const NoGrad no_grad;
  double sum = 0;
  for (std::int64_t begin = 0; begin < windows.size(); begin += kEvaluationBatch) {
    std::vector<std::int64_t> places(
        static_cast<std::size_t>(std::min(kEvaluationBatch, windows.size() - begin)));
    std::iota(places.begin(), places.end(), begin);
    const Batch batch = windows.batch(places);
    sum += loss_of(model(batch.input), batch.target, loss, Reduction::mean).item() *
           static_cast<double>(places.size());
  }
  return sum / static_cast<double>(windows.size());
}

FitConfig completed(FitConfig config, const SeriesTable& table) {
  config.model.channels = static_cast<std::int64_t>(table.column_names.size());
  config.model.time_features =
      config.use_time_features ? static_cast<std::int64_t>(time_feature_names(table.frequency).size()) : 0;
  config.validate();
  return config;
}

FitResult fit(FitConfig given, const SeriesTable& table, const FitHooks& hooks) {
  FitResult result;
  result.config = completed(std::move(given), table);
  const FitConfig& config = result.config;
  const DataSplit parts =
      split_windows(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
  InitSource source(config.seed);
  result.model = make_forecast_model(config.model, source);
  ForecastModel& model = *result.model;
  const std::vector<Parameter*> all = parameters(model);
  Fit state{.config = config,
            .hooks = hooks,
            .parts = parts,
            .model = model,
            .all = all,
            .optimizer = Adam(all, AdamConfig{.learning_rate = config.learning_rate}),
            .best = {}};
  for (std::int64_t e = 0; e < config.epochs; ++e) {
    EpochReport report = state.epoch(e);
    // A tie counts as better, as in the published code.
    report.best = e == 0 || report.validation_loss <= result.best_validation_loss;
    if (report.best) {
      result.best_epoch = report.epoch;
      result.best_validation_loss = report.validation_loss;
      state.keep();
    }
    result.epochs.push_back(report);
    if (hooks.on_epoch && hooks.on_epoch(report)) {
      result.end = FitEnd::stopped;
      break;
    }
    if (config.patience > 0 && report.epoch - result.best_epoch >= config.patience) {
      result.end = FitEnd::early;
      break;
    }
  }
  if (config.keep == "best") state.restore();
  model.set_training(false);  // the weights may have changed since
  return result;
}

FitResult fit(FitConfig config, const FitHooks& hooks) {
  INGOT_CHECK(!config.data.empty(), InvalidConfig("data", "is missing; give the path of a CSV file"));
  const SeriesTable table = read_series(config.data, config.table);
  return fit(std::move(config), table, hooks);
}

}  // namespace ingot::forecast
