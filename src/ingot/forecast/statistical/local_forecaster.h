#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/forecast/evaluate.h"
#include "ingot/forecast/statistical/local_model.h"
#include "ingot/train/run_metadata.h"

namespace ingot {
struct Report;
}

namespace ingot::forecast {

/// How a model did on the last rows of a table: mean |error| over that of the one-season-ago forecast.
struct LocalScore {
  std::string model;
  double mase = 0;
};

/// A model that is fitted to the history of each column when it forecasts. All that is kept is which one.
struct LocalForecaster {
  std::string model;  ///< one of local_models()
  std::int64_t horizon = 1, season = 1;
  TableOptions table;
  SplitOptions split;
  std::vector<std::string> column_names;  ///< targets first
  std::size_t targets = 0;
  Frequency frequency;
  std::vector<LocalScore> scores;  ///< of all that were compared, the best first; empty: the model was named
  RunMetadata metadata{};          ///< of the process that chose it: run.json in a saved one

  /// How to read a table for this model.
  TableOptions table_options() const;
  /// DataError that names what differs where a table has not the columns or the frequency of the first.
  void check(const SeriesTable& table) const;
};

struct LocalOptions {
  std::string model = "auto";  ///< one of local_models(); "auto": the best by choose_local_model
  std::int64_t horizon = 1;
  std::int64_t season = 0;  ///< 0: what suits the frequency
};

/// Continues a column from row `origin` on, from the rows before it. Where the series has inputs that are
/// known ahead, their effect (input_effects.h) is taken off the history and added to what is forecast; they
/// have to be known (check_known_ahead).
LocalForecast continue_column(LocalModel model, const Series& series, std::size_t column, std::int64_t origin,
                              std::int64_t season, std::int64_t horizon);

/// The models that suit a table: those for sparse demand where two in five values are zero and no input is
/// known ahead, all others anywhere.
std::vector<std::string> local_models_for(const SeriesTable& table);

/// Cross-validates models with a rolling origin: three times, as far as the rows suffice, the horizon is
/// forecast from the rows before it, with each model that suits the table. The best first. DataError where no
/// series has more rows than the horizon.
std::vector<LocalScore> score_local_models(const SeriesTable& table, std::int64_t horizon,
                                           std::int64_t season);

/// Chooses, and checks that the table can be forecast. `table` and `split` are kept for later commands.
LocalForecaster fit_local(const LocalOptions& options, const SeriesTable& table,
                          const TableOptions& read_with, const SplitOptions& split);

/// Continues one series from row `origin` on.
SeriesForecast predict_local_at(const LocalForecaster& forecaster, const SeriesTable& table,
                                const Series& series, std::int64_t origin, const std::vector<int>& levels);
/// Continues every series after its last row, but for those of series_not_continued. DataError where none can
/// be continued.
std::vector<SeriesForecast> predict_local(const LocalForecaster& forecaster, const SeriesTable& table,
                                          const std::vector<int>& levels = {80, 90});

/// Forecasts from rolling origins in the test part, each from all rows before it, with this model and with
/// those `beside` it. Series without a whole horizon of test part are left out and named.
/// Errors as evaluate's.
Evaluation evaluate_local(const LocalForecaster& forecaster, const SeriesTable& table,
                          const EvaluateOptions& options,
                          const std::vector<std::string>& beside = {"naive", "seasonal_naive", "ets",
                                                                    "theta"});

/// Whether a directory holds such a model.
bool is_local_forecaster(const std::string& directory);
/// Writes config.json, and report.html where there is one: the directory appears whole or not at all.
void save_local_forecaster(const std::string& directory, const LocalForecaster& forecaster,
                           const Report* report = nullptr);
LocalForecaster load_local_forecaster(const std::string& directory);

}  // namespace ingot::forecast
