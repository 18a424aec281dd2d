#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {

/// Excel's serial days: 1 is 1900-01-01, 44197 is 2021-01-01, and fractions are times of day (44197.5 is
/// noon). `style` gets the most decimals that a cell has; moments are the whole hours, minutes or seconds
/// that all cells stand for within their decimals. Nothing where a cell is another number, or not of the
/// years 1990 to 2100, or, `told` that these are such days, 1954 to 2100.
std::optional<std::vector<Moment>> parse_excel_days(std::span<const std::string_view> cells, DateStyle* style,
                                                    bool told);
/// Whether such moments are likely to be dates rather than row numbers: four rows or more, in any order, of
/// which whole days lie on the same day of months and parts of days on an even grid. `named`: the column has
/// a date's name, so that any even grid will do.
bool are_likely_excel_days(std::vector<Moment> moments, bool named);
/// Writes a moment so.
std::string format_excel_day(Moment moment, const DateStyle& style);

}  // namespace ingot::forecast
