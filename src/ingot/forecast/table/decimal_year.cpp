#include "ingot/forecast/table/decimal_year.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {

std::optional<Moment> parse_decimal_year(std::string_view text, DateStyle* style) {
  const bool decimal =
      text.size() >= 6 && text[4] == '.' && text.find_first_not_of("0123456789.") == text.npos;
  double years = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, years);
  if (!decimal || error != std::errc() || end != last || years < 1600 || years >= 2200) return std::nullopt;
  const double year = std::floor(years), months = 12 * (years - year);
  // The months of a calendar begin up to 0.06 of a month before the twelfths of a year.
  const double month = std::floor(months + 0.1);
  // Tenths of a year and the like are not months. Those of calendars end up to a tenth of one off.
  const double off = months - month;
  if (std::abs(off) > 0.1 && std::abs(off - 0.5) > 0.2) return std::nullopt;
  if (style != nullptr) {
    style->decimals = static_cast<int>(text.size()) - 5;
    style->mid_month = months - month > 0.3;
  }
  const auto whole = static_cast<std::int64_t>(year) * 12 + static_cast<std::int64_t>(month);
  return moment_of({.year = whole / 12, .month = whole % 12 + 1});
}

std::string format_decimal_year(Moment moment, const DateStyle& style) {
  const Civil c = civil_of(moment);
  const auto day_of_year = [&](std::int64_t month, std::int64_t day) {
    return static_cast<double>(days_of(c.year, month, day) - days_of(c.year, 1, 1) + 1);
  };
  const double part = style.mid_month ? day_of_year(c.month, 15) / day_of_year(12, 31)
                                      : static_cast<double>(c.month - 1) / 12;
  return fmt::format("{:.{}f}", static_cast<double>(c.year) + part, style.decimals);
}

}  // namespace ingot::forecast
