#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ingot/forecast/table/calendar.h"

namespace ingot::forecast {

/// How many rows lie the commonest distance behind the one before: months or seconds.
double evenness(const std::vector<Moment>& times);

/// A column of six digits as days: 160701 is 2016-07-01.
struct ShortDates {
  std::vector<Moment> times;
  bool likely = false;         ///< rather than months (201607), weeks (201627) or row numbers
  bool maybe_numbers = false;  ///< row numbers would be as even
};

/// Nothing where a cell is not such a day, or where they do not lie as a calendar's do: equally many days or
/// months apart, at the ends of months, or on weekdays. They are likely where this is more even than the
/// other readings, or where the other reading is of 2100 on.
std::optional<ShortDates> parse_short_dates(std::span<const std::string_view> cells);

}  // namespace ingot::forecast
