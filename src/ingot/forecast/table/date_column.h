#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/data/csv.h"
#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {

using data::CsvTable;
using data::DataError;

/// Where a table's dates are, and what a user said about them.
struct DateSource {
  std::size_t column = 0;
  /// Where that column holds years: columns with the month and the day, the quarter, or the week.
  std::vector<std::size_t> parts = {};
  std::optional<std::size_t> clock = {};  ///< a column with the times of day
  /// "auto", "day-first", "month-first", "year-first", "number", "epoch-s", "epoch-ms", "excel", or a pattern
  /// of strptime.
  std::string format = "auto";
  /// The order that earlier tables of the same source showed: taken where all rows can be read in it.
  std::optional<DateOrder> usual_order = {};
};

/// The dates of all rows, and how to write more of them.
struct DateColumn {
  std::vector<Moment> times;
  DateStyle style;
  std::optional<DateOrder> order = {};  ///< where it mattered: what was taken
  std::string read_as;  ///< "2020-01-01 to 2021-02-03 as %d/%m/%Y, day first: '13/01/2020' on line 14"
};

/// "auto" (nothing), "year-first", "month-first", "day-first"; InvalidConfig for `key` otherwise.
std::optional<DateOrder> parse_date_order(std::string_view text, std::string_view key);
std::string_view name(DateOrder order);

/// InvalidConfig for `key` where DateSource::format is none of those.
void check_date_choice(const std::string& format, const std::string& key);

/// Reads a column of dates or row numbers. Numbers that are all dates like 20160701 or 201607 are dates, and
/// so are numbers that are all seconds or milliseconds of 1980 to 2100, and serial days of Excel, as
/// are_likely_excel_days has it. Whether the day or the month comes
/// first is what all rows can be read with; if both, what puts more of them at even distances; if both do,
/// the month, and read_as says so. Dates with offsets from UTC are moments of UTC, but where all have the
/// same time of day by their own clocks they are days, weeks or months of that clock, which summer time does
/// not shift. DataError for what is not a date, and for rows with and without a time zone in one column.
DateColumn read_dates(const CsvTable& csv, const DateSource& source);

/// Whether all cells of a column that are not empty are times of day, as "13:00", "00.30.00" or "1 PM", or
/// plain hours, 0 to 24, which is the end of the day; where one is larger, 0 to 2400.
bool holds_clocks(const CsvTable& csv, std::size_t column);

}  // namespace ingot::forecast
