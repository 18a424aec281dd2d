#include "ingot/forecast/forecast_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/data/csv_write.h"
#include "ingot/forecast/fit_json.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;

using data::csv_cell;

// The cells that name a series, or their header: of several columns they are lines of CSV already.
std::string id_cells(const std::string& id, const SeriesTable& table) {
  if (!table.long_layout) return "";
  return (table.several_ids ? id : csv_cell(id)) + ",";
}

std::string csv_header(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table) {
  std::string header = id_cells(table.id_name, table) + csv_cell(table.time_name);
  for (std::size_t t = 0; t < table.targets; ++t) {
    const std::string& name = table.column_names[t];
    header += "," + csv_cell(name);
    if (forecasts.empty()) continue;
    for (const auto& [level, unused] : forecasts[0].low) {
      header += "," + csv_cell(fmt::format("{}-lo-{}", name, level));
      header += "," + csv_cell(fmt::format("{}-hi-{}", name, level));
    }
    for (const auto& [q, unused] : forecasts[0].quantiles)
      header += "," + csv_cell(fmt::format("{}-q-{}", name, q));
  }
  return header + "\n";
}

// The level of the interval that has a quantile as an end, in per cent: 80 of 0.1 and 0.9.
int level_of(double quantile) { return static_cast<int>(std::lround(100 * std::abs(1 - 2 * quantile))); }

double parse_quantile(std::string_view word, const std::string& key) {
  double q = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), q);
  const bool number = error == std::errc{} && end == word.data() + word.size();
  const double level = 100 * std::abs(1 - 2 * q);
  INGOT_CHECK(
      number && q > 0 && q < 1 && std::abs(level - std::round(level)) < 1e-6 && level < 99.5,
      InvalidConfig(key, fmt::format("'{}' is not a quantile; expected numbers from 0.005 to 0.995 in "
                                     "steps of 0.005, by comma",
                                     word)));
  return q;
}

}  // namespace

std::vector<double> parse_quantiles(const std::string& text, const std::string& key) {
  std::vector<double> quantiles;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    quantiles.push_back(parse_quantile(std::string_view(text).substr(start, end - start), key));
    start = end + 1;
  }
  return quantiles;
}

std::vector<int> levels_to_predict(const std::optional<std::vector<int>>& asked,
                                   const std::vector<double>& quantiles, const std::vector<int>& usual) {
  if (quantiles.empty()) return asked.value_or(usual);
  std::set<int> levels;
  if (asked) levels.insert(asked->begin(), asked->end());
  for (const double q : quantiles) levels.insert(level_of(q));
  return {levels.begin(), levels.end()};
}

void take_quantiles(std::vector<SeriesForecast>& forecasts, const std::vector<double>& quantiles,
                    const std::optional<std::vector<int>>& asked) {
  if (quantiles.empty()) return;
  for (SeriesForecast& f : forecasts) {
    for (const double q : quantiles) {
      const auto low = f.low.find(level_of(q));
      f.quantiles[q] = low == f.low.end() ? f.values : q <= 0.5 ? low->second : f.high.at(level_of(q));
    }
    const auto unasked = [&](const auto& level) {
      return !asked || std::ranges::count(*asked, level.first) == 0;
    };
    std::erase_if(f.low, unasked);
    std::erase_if(f.high, unasked);
  }
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

std::vector<std::string> ids_without_forecast(const std::vector<SeriesForecast>& forecasts,
                                              const SeriesTable& table) {
  std::vector<std::string> ids;
  for (const LeftOut& series : table.left_out) ids.push_back(series.id);
  auto next = forecasts.begin();  // in the order of the table
  for (const Series& series : table.series) {
    if (next != forecasts.end() && next->id == series.id) {
      ++next;
    } else {
      ids.push_back(series.id);
    }
  }
  return ids;
}

std::string to_csv(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table) {
  std::string csv = csv_header(forecasts, table);
  for (const SeriesForecast& f : forecasts) {
    for (std::size_t h = 0; h < f.times.size(); ++h) {
      csv += id_cells(f.id, table);
      csv += format_moment(f.times[h], table.date_style);
      for (std::size_t t = 0; t < f.values.size(); ++t) {
        csv += fmt::format(",{}", f.values[t][h]);
        for (const auto& [level, low] : f.low)
          csv += fmt::format(",{},{}", low[t][h], f.high.at(level)[t][h]);
        for (const auto& [q, values] : f.quantiles) csv += fmt::format(",{}", values[t][h]);
      }
      csv += "\n";
    }
  }
  return csv;
}

std::string to_json(const std::vector<SeriesForecast>& forecasts, const SeriesTable& table) {
  Json all = Json::array();
  for (const SeriesForecast& f : forecasts) {
    Json series = Json::object(), targets = Json::object();
    if (table.long_layout) series["id"] = f.id;
    for (const Moment time : f.times) series["times"].push_back(format_moment(time, table.date_style));
    for (std::size_t t = 0; t < f.values.size(); ++t) {
      Json& target = targets[table.column_names[t]];
      target["forecast"] = f.values[t];
      for (const auto& [level, low] : f.low) {
        target[std::to_string(level)] = {{"low", low[t]}, {"high", f.high.at(level)[t]}};
      }
      for (const auto& [q, values] : f.quantiles) target["quantiles"][fmt::format("{}", q)] = values[t];
    }
    series["targets"] = targets;
    all.push_back(series);
  }
  const std::size_t horizon = forecasts.empty() ? 0 : forecasts[0].times.size();
  return dump_json(Json{{"horizon", horizon},
                        {"read_as", table.read_as},
                        {"gaps", to_json(table.filled)},
                        {"skipped", ids_without_forecast(forecasts, table)},
                        {"series", all}},
                   2);
}

}  // namespace ingot::forecast
