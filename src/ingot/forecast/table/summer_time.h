#pragma once

#include <optional>
#include <span>

#include "ingot/forecast/table/calendar.h"

namespace ingot::forecast {

/// Rows by clocks that go back at the end of summer time have one hour twice, and lack one in spring. Where
/// an hour comes twice in a night to a Sunday of spring or autumn, makes the moments even: they count by the
/// clock of the last row. Returns the first index of the hour's second time; nothing, and no change, where
/// no hour comes twice.
std::optional<std::size_t> even_out_summer_time(std::span<Moment> moments);

}  // namespace ingot::forecast
