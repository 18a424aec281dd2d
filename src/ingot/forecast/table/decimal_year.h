#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {

/// Reads a year with decimals, 1600 to 2199, as the first of its month: 1958.2027 (mid-March, as NOAA writes
/// it), 1949.083 (February, as R does), 1947.25 (the second quarter).
std::optional<Moment> parse_decimal_year(std::string_view text, DateStyle* style);
/// Writes a moment's month so.
std::string format_decimal_year(Moment moment, const DateStyle& style);

}  // namespace ingot::forecast
