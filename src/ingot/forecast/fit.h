#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ingot/forecast/fit_config.h"
#include "ingot/models/forecast/model.h"
#include "ingot/train/trainer.h"

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

/// Where a fit stands between two optimizer steps, and what its checkpoints tell of that.
struct FitProgress {
  std::vector<EpochReport> epochs;  ///< that are done
  std::int64_t best_epoch = 0;
  double best_validation_loss = 0;

  // Of the epoch that runs.
  std::int64_t batch = 0;  ///< batches done
  double loss_sum = 0;     ///< over the windows done
  double seconds = 0;      ///< in processes before this one
};

struct FitHooks {
  /// After every optimizer step: steps done of those that all epochs would take, and this batch's loss. On a
  /// device that works beside the host the next step is under way then.
  std::function<void(std::int64_t done, std::int64_t total, double loss)> on_step;
  /// After every epoch; true ends the fit, as a tuner's pruner does.
  std::function<bool(const EpochReport&)> on_epoch;
  /// Before the first step, where the fit goes on from a checkpoint.
  std::function<void(const FitProgress&)> on_resume = {};
  /// Asked after every step; true ends the fit there (Ctrl-C).
  std::function<bool()> should_stop = {};
  /// Before a fit to all rows of so many epochs (FitConfig::refit). Of that fit on_epoch tells nothing.
  std::function<void(std::int64_t epochs)> on_refit = {};
  /// The processes that do the fit together, each with a share of every batch; null: this one alone. All call
  /// fit() with the same configuration, table and saving; hooks may differ.
  dist::Communicator* ranks = nullptr;
};

/// Where a fit that may be killed saves itself.
struct FitSaving {
  std::string directory;       ///< empty: nowhere. The fit leaves it there
  double every_seconds = 300;  ///< a fit that takes less writes nothing, unless it is stopped
  bool resume = false;         ///< go on from what is there; begin where nothing is
};

struct FitResult {
  std::unique_ptr<ForecastModel> model;  ///< on the device that config.device chose
  FitConfig config;                      ///< with what the data decided filled in
  std::vector<EpochReport> epochs;       ///< none where it was stopped in the first
  std::int64_t best_epoch = 0;
  double best_validation_loss = 0;
  TrainEnd end = TrainEnd::finished;
  RunMetadata metadata{};
};

/// Trains a network on the training windows, keeps the weights of the epoch that config.keep says.
/// Matmuls are as exact as config.matmul_precision says while it runs, whatever was set before. Weights and
/// all that belongs to them are on the device that config.device names: errors as choose_device's.
/// Same configuration, table, device, number of threads and of ranks: same bits, killed and resumed or not.
/// NonFinite, naming the step, when the loss is not a number. DataError and InvalidConfig as reading and
/// splitting say. IoError where saving.directory holds a fit that was not told to be resumed, or cannot be
/// written.
FitResult fit(FitConfig config, const SeriesTable& table, const FitHooks& hooks = {},
              const FitSaving& saving = {});
/// A network that is trained on all rows of series of which `scales` are known, for as many epochs; null
/// where it was stopped. Starts from the weights that fit() starts from.
std::unique_ptr<ForecastModel> fit_all_rows(FitConfig config, std::int64_t epochs, const SeriesTable& table,
                                            const std::map<std::string, ColumnScales>& scales,
                                            const FitHooks& hooks = {});
/// Reads config.data first.
FitResult fit(FitConfig config, const FitHooks& hooks = {});

/// The table that config.data names; InvalidConfig where it names none.
SeriesTable read_data(const FitConfig& config);

/// What fit() throws before its first step, where settings, table and `saving` do not fit together.
void check_fit(FitConfig config, const SeriesTable& table, const FitSaving& saving = {});

/// Fills in what follows from the table: channels, calendar features, inputs that are known ahead, its ids.
/// InvalidConfig where one was given and is another number.
FitConfig completed(FitConfig config, const SeriesTable& table);

/// Mean loss over windows, every one counted alike: squared (mse) or absolute error of scaled values.
/// `ranks`: those that share the windows out, and all get the loss; the same bits as of one process.
double mean_loss(ForecastModel& model, const WindowSet& windows, const std::string& loss,
                 dist::Communicator* ranks = nullptr);

}  // namespace ingot::forecast
