#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ingot/forecast/evaluate.h"

namespace ingot::forecast {

struct CrossValidationOptions {
  std::int64_t folds = 3;
  std::int64_t test_rows = 0;  ///< that each fold forecasts; 0: the horizon
  std::int64_t stride = 1;     ///< rows between the origins of forecasts inside these
  std::int64_t season = 0;     ///< as in EvaluateOptions
  std::optional<std::vector<int>> levels = {};
  std::function<void()> on_batch = {};  ///< as in EvaluateOptions
};

/// One model, fitted on the rows before an origin and evaluated on the rows after it.
struct Fold {
  Moment origin = 0;           ///< of the first series: the first row that is forecast
  std::int64_t rows = 0;       ///< before it, of all series
  std::int64_t epochs = 0;     ///< until the fit ended
  Evaluation evaluation = {};  ///< baselines are fitted on all rows before the origin
};

struct CrossValidation {
  std::vector<Fold> folds;
  std::vector<Metrics> mean;  ///< over the folds, by method; intervals of the levels that all folds have
  std::vector<LeftOut> left_out = {};  ///< too short for the folds
  bool stopped = false;                ///< a fit was told to end: `folds` are those before it
};

/// Fits the model of fold 0, 1, ... to the rows before its origin.
using FoldFit = std::function<Forecaster(std::int64_t fold, const FitConfig&, const SeriesTable&)>;

/// Cross-validation with a rolling origin and an expanding window: the last folds · test_rows rows of each
/// series are forecast, test_rows at a time, each time by a model that is fitted anew to the rows before,
/// which training and validation share as config.split has it. No fold sees a row after its own.
/// Series too short for that are left out where others are long enough.
/// InvalidConfig where folds and rows do not fit together, DataError where the first fold has too few rows.
CrossValidation cross_validate(const FitConfig& config, const SeriesTable& table,
                               const CrossValidationOptions& options = {}, const FoldFit& fit = {});

}  // namespace ingot::forecast
