#include "ingot/forecast/date_column.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace ingot::forecast {
namespace {

bool all_compact(const CsvTable& csv, std::size_t column) {
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (!parse_compact_date(csv.cell(row, column))) return false;
  }
  return true;
}

// One offset of all rows is written again. Those of a zone with summer time cannot be: hours are UTC then,
// and days have none.
void settle_offsets(DateColumn& dates, const std::vector<std::int64_t>& offsets) {
  const bool one_offset = std::ranges::adjacent_find(offsets, std::ranges::not_equal_to()) == offsets.end();
  if (!one_offset) dates.style.offset = 0;
  std::vector<Moment> shown = dates.times;
  for (std::size_t i = 0; i < shown.size(); ++i) shown[i] += offsets[i];
  const bool same_time =
      std::ranges::all_of(shown, [&](Moment m) { return time_of_day(m) == time_of_day(shown.front()); });
  if (shown == dates.times || !same_time) return;
  dates.times = std::move(shown);
  dates.style.own_clock = true;
  dates.style.zone = one_offset;
}

}  // namespace

DateColumn read_dates(const CsvTable& csv, std::size_t column) {
  DateColumn dates;
  std::vector<std::int64_t> offsets;
  dates.times.reserve(csv.rows());
  offsets.reserve(csv.rows());
  const auto parse = all_compact(csv, column) ? parse_compact_date : parse_moment;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    DateStyle style;
    const std::string_view cell = csv.cell(row, column);
    const std::optional<Moment> moment = parse(cell, &style);
    const auto fail = [&](std::string_view problem) {
      throw DataError(csv.name(), csv.line(row), csv.header()[column], problem);
    };
    if (!moment) {
      fail(fmt::format(
          "'{}' is not a date; expected one like 2016-07-01 13:00:00, 2016-07-01, or a row number", cell));
    }
    if (row == 0) dates.style = style;
    if (style.number != dates.style.number) fail("dates and plain numbers are mixed");
    if (style.zone != dates.style.zone) {
      fail(fmt::format("'{}' has {} time zone, '{}' of line {} has {}; write all dates in the same way", cell,
                       style.zone ? "a" : "no", csv.cell(0, column), csv.line(0),
                       style.zone ? "none" : "one"));
    }
    dates.style.widen(style);
    dates.times.push_back(*moment);
    offsets.push_back(style.offset);
  }
  settle_offsets(dates, offsets);
  return dates;
}

}  // namespace ingot::forecast
