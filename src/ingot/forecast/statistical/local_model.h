#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ingot::forecast {

/// What a model says of one column, from nothing but its history.
struct LocalForecast {
  std::vector<double> mean;  ///< [horizon]
  std::vector<double>
      deviation;  ///< [horizon] standard deviations of normal errors; empty where `values` is not
  std::vector<double> values;  ///< ascending: what any row may be, where most rows are zero
  std::string form;            ///< what was fitted: "ETS(M,Ad,M)"

  /// What holds `level` per cent of what row `step` may be.
  std::pair<double, double> interval(int level, std::size_t step) const;
};

/// Continues x, the whole history, which has at least one value; none is missing. `season`: rows in a cycle,
/// 1 for none.
using LocalModel = LocalForecast (*)(std::span<const double> x, std::int64_t season, std::int64_t horizon);

LocalForecast naive_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
LocalForecast seasonal_naive_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
/// Exponential smoothing in state-space form (Hyndman et al. 2008) with additive or multiplicative errors,
/// without a trend or with one, damped or not, and without a season or with an additive or multiplicative
/// one: the model with the least AICc, by maximum likelihood. Multiplicative parts need positive values.
/// Seasons of more than 24 rows are left to the other models, as in the original.
LocalForecast ets_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
/// ARIMA with seasons: differences by a test of the level (KPSS) and by the strength of the season, orders by
/// Hyndman and Khandakar's stepwise search (2008) for the least AICc, by maximum likelihood. The last 600
/// rows count; seasons of more than 24 are left to the other models.
LocalForecast arima_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
/// The median of ETS, ARIMA and theta, row by row, with the widest of their deviations.
LocalForecast ensemble_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
/// The theta method (Assimakopoulos and Nikolopoulos 2000) as a state-space model (Fiorucci et al. 2016), on
/// the seasonally adjusted history where a test of its autocorrelation finds a season.
LocalForecast theta_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
/// Demand that comes now and then: size over distance, both smoothed (Croston 1972); 0.95 of that, which has
/// less bias (Syntetos and Boylan 2005); size times probability, which falls while nothing comes (Teunter,
/// Syntetos and Babai 2011).
LocalForecast croston_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
LocalForecast sba_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);
LocalForecast tsb_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon);

/// naive, seasonal_naive, ets, arima, theta, ensemble, croston, sba, tsb.
const std::vector<std::string>& local_models();
/// InvalidConfig for `key` where no model has that name.
LocalModel local_model(const std::string& name, const std::string& key = "model");

}  // namespace ingot::forecast
