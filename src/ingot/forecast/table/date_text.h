#pragma once

#include <string>
#include <string_view>

namespace ingot::forecast {

/// Behind the hour that comes twice as summer time ends, which the table of a Texan grid marks so.
inline constexpr std::string_view kExtraHour = " DST";

/// Where an interval's end begins, "01.01.2018 00:00 - 01.01.2018 01:00" or "2018-01-01/2018-01-07"; npos for
/// a date alone.
std::size_t end_of_start(std::string_view cell);

/// A date as patterns have it: spaces that do not break a line, which JavaScript writes before AM and PM, are
/// plain ones, halves of the day stand behind the clock, and marks that do not belong to it are left out.
std::string with_plain_spaces(std::string_view cell);

}  // namespace ingot::forecast
