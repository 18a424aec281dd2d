#include "ingot/forecast/table/future_columns.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_column.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

// Rows that holidays are told of behind a series, where nothing else says how far ahead.
constexpr std::size_t kMostAhead = 10'000;

std::int64_t midnight_of(Moment moment) { return floor_div(moment, kDay) * kDay; }

// How many of the days of a row are holidays.
double holidays_between(const std::set<Moment>& days, Moment from, Moment until) {
  const Moment first = midnight_of(from), end = std::max(midnight_of(until), first + kDay);
  return static_cast<double>(std::distance(days.lower_bound(first), days.lower_bound(end)));
}

// The rows of a series and those behind it that holidays are told of.
std::vector<Moment> rows_with_holidays(const SeriesTable& table, const Series& series,
                                       const HolidayTable& holidays) {
  std::vector<Moment> times = series.times;
  const std::size_t most =
      series.future.empty() ? series.length() + kMostAhead : series.future.front().size();
  for (std::int64_t step = 1; times.size() < most; ++step) {
    const Moment next = table.frequency.advance(series.times.back(), step, series.month_day);
    if (civil_of(next).year > holidays.last_year) break;
    times.push_back(next);
  }
  return times;
}

}  // namespace

void cut_unknown(std::vector<std::vector<double>>& columns, std::size_t rows) {
  std::size_t known = columns.empty() ? 0 : columns.front().size();
  for (const std::vector<double>& column : columns) {
    std::size_t row = rows;
    while (row < known && !std::isnan(column[row])) ++row;
    known = row;
  }
  for (std::vector<double>& column : columns) column.resize(known);
}

HolidayTable HolidayTable::load(const std::string& path) {
  const CsvTable csv = CsvTable::load(path);
  INGOT_CHECK(csv.rows() > 0, DataError(path, 0, "", "has no holidays"));
  const auto column = [&](const char* name) {
    const auto found =
        std::ranges::find_if(csv.header(), [&](const std::string& word) { return same_word(word, name); });
    return static_cast<std::size_t>(found - csv.header().begin());
  };
  const std::size_t named = column("date"), country = column("country");
  const std::size_t date = named < csv.columns() ? named : column("ds");  // as Prophet has it
  INGOT_CHECK(date < csv.columns(),
              DataError(path, 1, "", "has no column 'date' or 'ds'; a table of holidays has one"));
  const std::vector<Moment> times = read_dates(csv, {.column = date}).times;
  HolidayTable table{.source = path, .days = {}};
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string id = country < csv.columns() ? std::string(csv.cell(row, country)) : "";
    table.days[id].insert(midnight_of(times[row]));
  }
  const auto [first, last] = std::ranges::minmax_element(times);
  table.first_year = civil_of(*first).year;
  table.last_year = civil_of(*last).year;
  return table;
}

void add_holidays(SeriesTable& table, const HolidayTable& holidays) {
  INGOT_CHECK(!table.date_style.number,
              DataError(table.source, 0, table.time_name,
                        fmt::format("numbers its rows, so the holidays of {} are none of them; leave "
                                    "--holidays out, or date the rows",
                                    holidays.source)));
  for (Series& series : table.series) {
    const std::int64_t begins = civil_of(series.times.front()).year,
                       ends = civil_of(series.times.back()).year;
    INGOT_CHECK(begins >= holidays.first_year && ends <= holidays.last_year,
                DataError(holidays.source, 0, "",
                          fmt::format("tells of the years {} to {}, but rows of {} are of {} to {}; make a "
                                      "table of holidays that covers them, and the years to forecast",
                                      holidays.first_year, holidays.last_year, table.source, begins, ends)));
    const std::vector<Moment> times = rows_with_holidays(table, series, holidays);
    for (std::vector<double>& column : series.future) column.resize(times.size());
    for (const auto& [country, days] : holidays.days) {
      std::vector<double>& column = series.future.emplace_back();
      column.reserve(times.size());
      for (const Moment from : times) {
        column.push_back(holidays_between(days, from, table.frequency.advance(from, 1, series.month_day)));
      }
    }
  }
  for (const auto& [country, days] : holidays.days) {
    table.future_names.push_back(country.empty() ? "holiday" : "holiday_" + country);
  }
}

void check_known_ahead(const SeriesTable& table, const Series& series, std::int64_t origin,
                       std::int64_t horizon) {
  if (series.future.empty()) return;
  const auto known = static_cast<std::int64_t>(series.future.front().size()) - origin;
  INGOT_CHECK(
      known >= horizon,
      DataError(table.source, 0, fmt::format("{}", fmt::join(table.future_names, ", ")),
                fmt::format("is known for {} of the {} rows ahead{}; add rows behind the last one that "
                            "have it and no value of what is forecast, and holidays of those years",
                            std::max<std::int64_t>(0, known), horizon,
                            series.id.empty() ? "" : " of series '" + series.id + "'")));
}

bool known_ahead(const Series& series, std::int64_t horizon) {
  return series.future.empty() ||
         static_cast<std::int64_t>(series.future.front().size() - series.length()) >= horizon;
}

bool known_ahead(const SeriesTable& table, std::int64_t horizon) {
  return std::ranges::all_of(table.series, [&](const Series& s) { return known_ahead(s, horizon); });
}

std::vector<LeftOut> series_not_continued(const SeriesTable& table, std::int64_t lookback,
                                          std::int64_t horizon) {
  std::vector<LeftOut> left_out;
  for (const Series& series : table.series) {
    if (static_cast<std::int64_t>(series.length()) < lookback) {
      left_out.push_back({series.id, fmt::format("fewer rows than the {} that the model reads", lookback)});
    } else if (!known_ahead(series, horizon)) {
      left_out.push_back({series.id, fmt::format("{} not known for {} rows behind its last one",
                                                 fmt::join(table.future_names, ", "), horizon)});
    }
  }
  return left_out;
}

}  // namespace ingot::forecast
