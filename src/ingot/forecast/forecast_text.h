#pragma once

#include <string>
#include <vector>

#include "ingot/forecast/forecaster.h"

// Forecasts as text, with every digit of their numbers.
namespace ingot::forecast {

/// As CSV: the table's column of dates, then NAME, NAME-lo-90, NAME-hi-90 for each target; long tables with
/// their column of ids first.
std::string to_csv(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table);

/// The same as JSON: "horizon", "read_as" (what was understood of the table), "gaps", "skipped" (ids without
/// a forecast), and "series" with an object for each: "id" in long tables, "times" as the table writes them,
/// and "targets", for each "forecast" and, by level, "low" and "high".
std::string to_json(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table);

/// The ids of all series that have no forecast: SeriesTable::left_out and series_left_out().
std::vector<std::string> ids_without_forecast(const std::vector<SeriesForecast>& forecasts,
                                              const SeriesTable& table);

/// "a, b, c, d, e and 3 more": for people, where there can be thousands.
std::string list_of(const std::vector<std::string>& names);

}  // namespace ingot::forecast
