#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ingot/forecast/fit.h"

namespace ingot {
struct Report;
}

namespace ingot::forecast {

/// How far forecasts were off, for prediction intervals that need no assumption on the errors (split
/// conformal prediction, Vovk et al. 2005): for each target and step ahead, quantiles of |error| over
/// calibration windows, of the values in them that were measured.
struct Calibration {
  Tensor quantiles;  ///< f32 [99, targets, horizon], scaled: level 1 % to 99 %; undefined: not calibrated
  std::int64_t windows = 0;  ///< that hold a measured value, for the target and step that have the fewest

  /// Half the width of the interval that holds `level` per cent, scaled.
  float half_width(int level, std::int64_t target, std::int64_t step) const;

  /// The widest interval that n errors can tell: 100·n / (n + 1) per cent; 0 where there are none.
  int highest_level() const;
  /// 80 and 90 per cent, where they are not above that: the intervals that nobody had to ask for.
  std::vector<int> usual_levels() const;
  /// A sentence on those of them that are missing; empty where none is, or where all are for want of a
  /// calibration.
  std::string missing_levels() const;
};

/// Measures errors on `windows`. Level l takes the ceil((n + 1)·l / 100)-th smallest of n errors, up to
/// highest_level(). Not calibrated where a target and step has no error.
Calibration calibrate(const ForecastModel& model, const WindowSet& windows);

/// A fitted model with all that is needed to use it on a user's table.
struct Forecaster {
  FitConfig config;
  std::vector<std::string> column_names;  ///< targets first; empty: any (a checkpoint of transformers)
  std::size_t targets = 0;
  Frequency frequency;
  std::map<std::string, ColumnScales> scales;  ///< by series id, fitted on the training part
  std::unique_ptr<ForecastModel> model;        ///< on any device: what comes out of it is on the host
  Calibration calibration;
  std::vector<EpochReport> epochs;
  std::int64_t best_epoch = 0;        ///< from 1; of this process' fit
  std::string fit_digest;             ///< of what it was fitted with and to; empty where the fit was stopped
  TrainEnd end = TrainEnd::finished;  ///< of this process' fit
  RunMetadata metadata{};  ///< of the fit: run.json in a saved one; empty of a checkpoint without it

  /// DataError that names what differs where a table has not the columns or the frequency that the model was
  /// fitted on.
  void check(const SeriesTable& table) const;
  /// InvalidConfig for a level outside 1 to 99 or above what the calibration reaches, and for any where there
  /// is none.
  void check_levels(const std::vector<int>& levels) const;
  /// How to read a table for this model: the same columns, targets first.
  TableOptions table_options() const;
  /// The scales of a series; those of an unknown one are fitted on all its rows, and a column that is
  /// constant there keeps its unit.
  ColumnScales scales_of(const Series& series, const SeriesTable& table) const;
};

/// Fits, calibrates on the validation windows; the model stays where it was fitted.
Forecaster fit_forecaster(FitConfig config, const SeriesTable& table, const FitHooks& hooks = {},
                          const FitSaving& saving = {});

/// Whether save_forecaster could write there, before a fit of hours: IoError where it could not, or where it
/// would replace what is not a model.
void check_model_directory(const std::string& directory);
/// Writes config.json, model.safetensors, calibration.safetensors, and report.html where there is one: the
/// directory appears whole or not at all.
void save_forecaster(const std::string& directory, const Forecaster& forecaster,
                     const Report* report = nullptr);
/// Opens such a directory, or transformers' for a PatchTSTForPrediction. IoError, FormatError, or Error that
/// lists the tensors that do not fit. The model is on `device`, which config.device then names.
Forecaster load_forecaster(const std::string& directory, Device device = kCpu);
/// What such a directory's model was fitted with, without its weights. `from` is empty: a fit with this
/// configuration begins anew.
FitConfig fitted_config(const std::string& directory);
/// Where such a directory holds the weights.
std::string weights_path(const std::string& directory);

/// The continuation of one series.
struct SeriesForecast {
  std::string id;
  std::vector<Moment> times;                                  ///< [horizon]
  std::vector<std::vector<double>> values;                    ///< [targets][horizon], in the table's units
  std::map<int, std::vector<std::vector<double>>> low, high;  ///< by level
  std::map<double, std::vector<std::vector<double>>> quantiles = {};  ///< see take_quantiles
};
/// Continues every series after its last row, but for those of series_not_continued. A target that never
/// changed keeps its value, whatever the model learnt from others. DataError where none can be continued;
/// InvalidConfig as Forecaster::check_levels says.
std::vector<SeriesForecast> predict(const Forecaster& forecaster, const SeriesTable& table,
                                    const std::vector<int>& levels = {});
/// The same from any row on: the forecast of rows `origin`, origin + 1, ... of one series.
SeriesForecast predict_at(const Forecaster& forecaster, const SeriesTable& table, const Series& series,
                          std::int64_t origin, const std::vector<int>& levels);

}  // namespace ingot::forecast
