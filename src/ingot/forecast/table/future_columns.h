#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ingot/forecast/table/series_table.h"

// Inputs that are known before what is to be forecast.
namespace ingot::forecast {

/// Ends the columns before the first row from `rows` on in which a value of one of them is NaN.
void cut_unknown(std::vector<std::vector<double>>& columns, std::size_t rows);

/// Days off, by country: a CSV file with a column of dates and, where there are several, one named `country`.
struct HolidayTable {
  std::string source;
  std::map<std::string, std::set<Moment>> days;  ///< midnights, by country; "" where the file names none
  std::int64_t first_year = 0, last_year = 0;    ///< that it tells of

  /// Errors as those of tables.
  static HolidayTable load(const std::string& path);
};

/// Adds an input for each country, `holiday_DE` or `holiday`: how many of the days from a row to the next one
/// are holidays; of rows shorter than a day, whether theirs is. It is known as far ahead as other inputs are,
/// and as the holidays' last year. DataError where rows are numbered, or of years before the first.
void add_holidays(SeriesTable& table, const HolidayTable& holidays);

/// DataError that names an input where one is not known over `horizon` rows from `origin` on.
void check_known_ahead(const SeriesTable& table, const Series& series, std::int64_t origin,
                       std::int64_t horizon);
/// Whether none fails that behind the last row of one series, or of any.
bool known_ahead(const Series& series, std::int64_t horizon);
bool known_ahead(const SeriesTable& table, std::int64_t horizon);
/// The series of the table that cannot be continued over `horizon` rows, and why: fewer rows than `lookback`,
/// or inputs that are not known so far ahead.
std::vector<LeftOut> series_not_continued(const SeriesTable& table, std::int64_t lookback,
                                          std::int64_t horizon);

}  // namespace ingot::forecast
