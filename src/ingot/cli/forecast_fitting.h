#pragma once

#include <string>
#include <vector>

#include "ingot/base/config.h"
#include "ingot/cli/forecast.h"
#include "ingot/forecast/fit_config.h"
#include "ingot/forecast/forecaster.h"

// What `ingot forecast fit` and `compare` share.
namespace ingot::cli {

inline constexpr const char* kGoOn = "the same command with --resume goes on with it.";

/// The file, the options and --set, in this order.
Config given_configuration(const ForecastOptions& o, const std::optional<std::string>& model);
/// What --model takes: networks, models without training, and the best of these.
std::vector<std::string> all_models();
bool is_network(const std::string& model);
/// The configuration with a horizon and a look-back that the table holds, where none was asked for.
forecast::FitConfig fitted_to(const forecast::SeriesTable& table, const ForecastOptions& o,
                              const forecast::FitConfig& config);
/// Columns that are series of their own; one that nothing can be learnt from does not stop the others.
std::vector<forecast::LeftOut> leave_out_constant(forecast::SeriesTable& table,
                                                  const forecast::FitConfig& config,
                                                  const ForecastOptions& o);
/// Beside the model's directory, which appears whole or not at all.
forecast::FitSaving saving_of(const ForecastOptions& o, const std::string& output);

struct WrittenFit {
  forecast::Forecaster forecaster;
  std::vector<forecast::LeftOut> left_out;  // of the fit
  bool unfinished = false;                  // stopped, and saved so that --resume goes on
};
WrittenFit fit_into(const std::string& output, const ForecastOptions& o, const forecast::FitConfig& config,
                    const forecast::SeriesTable& table, dist::Communicator* ranks = nullptr);

/// InvalidConfig where an option has no effect on a model without training.
void check_local_options(const std::string& model, const ForecastOptions& o);
/// How many rows a model without training forecasts: as asked for, else a season.
std::int64_t local_horizon(const ForecastOptions& o, const forecast::FitConfig& config,
                           const forecast::SeriesTable& table);

}  // namespace ingot::cli
