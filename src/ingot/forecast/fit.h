#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ingot/forecast/fit_config.h"
#include "ingot/models/forecast/model.h"

namespace ingot::forecast {

/// One pass over the training windows.
struct EpochReport {
  std::int64_t epoch = 0;  ///< from 1
  double train_loss = 0;   ///< mean over the epoch, with dropout
  double validation_loss = 0;
  double learning_rate = 0;
  double seconds = 0;
  bool best = false;  ///< the best validation loss so far
};

struct FitHooks {
  /// After every optimiser step: steps done of those that all epochs would take, and this batch's loss.
  std::function<void(std::int64_t done, std::int64_t total, double loss)> on_step;
  /// After every epoch; true ends the fit, as a tuner's pruner does.
  std::function<bool(const EpochReport&)> on_epoch;
};

enum class FitEnd : std::uint8_t { finished, early, stopped };

struct FitResult {
  std::unique_ptr<ForecastModel> model;
  FitConfig config;  ///< with what the data decided filled in
  std::vector<EpochReport> epochs;
  std::int64_t best_epoch = 0;
  double best_validation_loss = 0;
  FitEnd end = FitEnd::finished;
};

/// Trains a network on the training windows, keeps the weights of the epoch that config.keep says.
/// Same configuration, table and number of threads: same bits. NonFinite, naming epoch and step, when the
/// loss is no number. DataError and InvalidConfig as reading and splitting say.
FitResult fit(FitConfig config, const SeriesTable& table, const FitHooks& hooks = {});
/// Reads config.data first.
FitResult fit(FitConfig config, const FitHooks& hooks = {});

/// Fills in what follows from the table: channels, calendar features. InvalidConfig where
/// config.model.channels was given and is another number.
FitConfig completed(FitConfig config, const SeriesTable& table);

/// Mean loss over windows, every one counted alike: squared (mse) or absolute error of scaled values.
double mean_loss(ForecastModel& model, const WindowSet& windows, const std::string& loss);

}  // namespace ingot::forecast
