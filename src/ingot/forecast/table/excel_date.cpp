#include "ingot/forecast/table/excel_date.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ingot/forecast/table/civil.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kDay1970 = 25569;  // 1970-01-01, as Excel counts
constexpr int kMostDecimals = 12;

// A whole number of so many seconds near `seconds`; nothing where it is farther off than the decimals allow.
std::optional<Moment> nearest(double seconds, std::int64_t unit, double tolerance) {
  const auto step = static_cast<double>(unit);
  const double whole = std::round(seconds / step) * step;
  if (std::abs(whole - seconds) > tolerance) return std::nullopt;
  return std::llround(whole);
}

std::optional<std::vector<Moment>> rounded_to(std::span<const double> days, std::int64_t unit,
                                              double tolerance) {
  std::vector<Moment> moments;
  moments.reserve(days.size());
  for (const double day : days) {
    const auto moment =
        nearest((day - static_cast<double>(kDay1970)) * static_cast<double>(kDay), unit, tolerance);
    if (!moment) return std::nullopt;
    moments.push_back(*moment);
  }
  return moments;
}

}  // namespace

std::optional<std::vector<Moment>> parse_excel_days(std::span<const std::string_view> cells, DateStyle* style,
                                                    bool told) {
  // Days since 1970, which other programs count, are of this century below the later bound.
  const double kFrom = told ? 19725 : 32874;  // 1954-01-01, 1990-01-01
  constexpr double kTo = 73415;               // 2101-01-01
  std::vector<double> days;
  days.reserve(cells.size());
  int decimals = 0;
  for (const std::string_view cell : cells) {
    double day = 0;
    const char* const last = cell.data() + cell.size();
    const auto [end, error] = std::from_chars(cell.data(), last, day, std::chars_format::fixed);
    if (error != std::errc() || end != last || day < kFrom || day >= kTo) return std::nullopt;
    const std::size_t point = std::min(cell.find('.'), cell.size() - 1);
    decimals = std::max(decimals, static_cast<int>(std::min(cell.size() - 1 - point, std::size_t{16})));
    days.push_back(day);
  }
  if (style != nullptr) {
    *style = DateStyle{.clock = decimals > 0 ? " %H:%M" : ""};
    style->excel = std::min(decimals, kMostDecimals);
  }
  // Half of the last decimal, and what binary fractions leave.
  const double tolerance = 0.5 * static_cast<double>(kDay) * std::pow(10.0, -decimals) + 1e-3;
  for (const std::int64_t unit : {kDay, kHour, kMinute}) {
    if (decimals == 0 && unit != kDay) break;
    if (tolerance * 2 >= static_cast<double>(unit)) break;  // any number would be one
    if (auto moments = rounded_to(days, unit, tolerance)) return moments;
  }
  return rounded_to(days, decimals == 0 ? kDay : 1, decimals == 0 ? tolerance : 0.5);
}

bool are_likely_excel_days(std::vector<Moment> moments, bool named) {
  std::ranges::sort(moments);
  const auto last = std::unique(moments.begin(), moments.end());
  moments.erase(last, moments.end());
  if (moments.size() < (named ? 2 : 4)) return false;
  const auto frequency = infer_frequency(moments, false, nullptr);
  if (!frequency) return false;
  const bool part_days = std::ranges::any_of(moments, [](Moment m) { return time_of_day(m) != 0; });
  return named || part_days || frequency->unit == Frequency::Unit::months;
}

std::string format_excel_day(Moment moment, const DateStyle& style) {
  const double day = static_cast<double>(moment) / static_cast<double>(kDay) + static_cast<double>(kDay1970);
  std::string text = fmt::format("{:.{}f}", day, style.excel);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  return text;
}

}  // namespace ingot::forecast
