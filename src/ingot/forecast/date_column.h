#pragma once

#include <vector>

#include "ingot/forecast/calendar.h"
#include "ingot/forecast/csv.h"

namespace ingot::forecast {

/// The dates of all rows, and how to write more of them.
struct DateColumn {
  std::vector<Moment> times;
  DateStyle style;
};

/// Reads a column of dates or row numbers. Numbers that are all dates like 20160701 or 201607 are dates.
/// Dates with offsets from UTC are moments of UTC, but where all have the same time of day by their own
/// clocks they are days, weeks or months of that clock, which summer time does not shift. DataError for what
/// is no date, and for rows with and without a time zone in one column.
DateColumn read_dates(const CsvTable& csv, std::size_t column);

}  // namespace ingot::forecast
