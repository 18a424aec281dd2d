#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/forecast/forecaster.h"

// Forecasts as text, with every digit of their numbers.
namespace ingot::forecast {

/// "0.1,0.5" as quantiles; none of an empty text. InvalidConfig for `key` where one is not from 0.005 to
/// 0.995 in steps of 0.005, which are the ends of the intervals that models tell of.
std::vector<double> parse_quantiles(const std::string& text, const std::string& key);
/// The levels to predict for quantiles, and for intervals: those asked for, or else, where no quantile is,
/// the usual ones. The median is level 0, of models that have one.
std::vector<int> levels_to_predict(const std::optional<std::vector<int>>& asked,
                                   const std::vector<double>& quantiles, const std::vector<int>& usual);
/// Makes quantiles of ends of intervals, and keeps no interval that was not asked for; does nothing where
/// there are no quantiles. The median of models without one is the forecast.
void take_quantiles(std::vector<SeriesForecast>& forecasts, const std::vector<double>& quantiles,
                    const std::optional<std::vector<int>>& asked);

/// As CSV: the table's column of dates, then NAME, NAME-lo-90, NAME-hi-90, NAME-q-0.1 for each target; long
/// tables with their column of ids first.
std::string to_csv(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table);

/// The same as JSON: "horizon", "read_as" (what was understood of the table), "gaps", "skipped" (ids without
/// a forecast), and "series" with an object for each: "id" in long tables, "times" as the table writes them,
/// and "targets", for each "forecast", by level "low" and "high", and "quantiles" where there are some.
std::string to_json(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table);

/// The ids of all series that have no forecast: SeriesTable::left_out and series_left_out().
std::vector<std::string> ids_without_forecast(const std::vector<SeriesForecast>& forecasts,
                                              const SeriesTable& table);

/// "a, b, c, d, e and 3 more": for people, where there can be thousands.
std::string list_of(const std::vector<std::string>& names);

}  // namespace ingot::forecast
