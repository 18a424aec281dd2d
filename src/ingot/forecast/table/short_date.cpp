#include "ingot/forecast/table/short_date.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_style.h"

namespace ingot::forecast {
namespace {

constexpr std::string_view kFormat = "%y%m%d";

bool is_six_digits(std::string_view cell) {
  return cell.size() == 6 && cell.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename Parse>
std::optional<std::vector<Moment>> parse_all(std::span<const std::string_view> cells, const Parse& parse) {
  std::vector<Moment> times;
  times.reserve(cells.size());
  for (const std::string_view cell : cells) {
    const std::optional<Moment> moment = parse(cell);
    if (!moment) return std::nullopt;
    times.push_back(*moment);
  }
  return times;
}

std::optional<std::vector<Moment>> parse_months_or_weeks(std::span<const std::string_view> cells) {
  auto months = parse_all(cells, [](std::string_view cell) { return parse_compact_date(cell); });
  return months ? std::move(months)
                : parse_all(cells, [](std::string_view cell) { return parse_plain_week(cell); });
}

std::optional<Moment> number(std::string_view cell) {
  Moment value = 0;
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

// Several series of one table have the same times.
std::vector<Moment> sorted_once(std::vector<Moment> times) {
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

bool are_months_apart(const std::vector<Moment>& times) {
  const auto month = [](const Civil& c) { return c.year * 12 + c.month; };
  const auto is_last = [](const Civil& c) { return c.day == last_day(c.year, c.month); };
  const Civil first = civil_of(times[0]), second = civil_of(times[1]);
  const std::int64_t step = month(second) - month(first);
  bool same_day = true, all_last = true;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Civil c = civil_of(times[i]);
    if (month(c) != month(first) + static_cast<std::int64_t>(i) * step) return false;
    same_day &= c.day == first.day;
    all_last &= is_last(c);
  }
  return step > 0 && (same_day || all_last);
}

bool are_days_apart(const std::vector<Moment>& times) {
  for (std::size_t i = 2; i < times.size(); ++i)
    if (times[i] - times[i - 1] != times[1] - times[0]) return false;
  return true;
}

// As exchanges are open: a few of them may be holidays.
bool are_weekdays(const std::vector<Moment>& times) {
  std::size_t next_days = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Moment distance = i == 0 ? kDay : times[i] - times[i - 1];
    if (weekday_of(times[i]) > 4 || distance > 5 * kDay) return false;
    next_days += distance == kDay ? 1 : 0;
  }
  return 2 * next_days > times.size();
}

}  // namespace

double evenness(const std::vector<Moment>& times) {
  std::map<std::pair<bool, std::int64_t>, std::int64_t> counts;
  std::int64_t most = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const Civil a = civil_of(times[i - 1]), b = civil_of(times[i]);
    const std::int64_t months = (b.year - a.year) * 12 + b.month - a.month;
    const bool whole_months =
        months != 0 && a.day == b.day && time_of_day(times[i - 1]) == time_of_day(times[i]);
    const std::int64_t distance = whole_months ? months : times[i] - times[i - 1];
    if (distance > 0) most = std::max(most, ++counts[{whole_months, distance}]);
  }
  return static_cast<double>(most);
}

std::optional<ShortDates> parse_short_dates(std::span<const std::string_view> cells) {
  if (cells.empty() || !std::ranges::all_of(cells, is_six_digits)) return std::nullopt;
  auto times = parse_all(cells, [](std::string_view cell) { return parse_by_format(cell, kFormat); });
  if (!times) return std::nullopt;
  const std::vector<Moment> days = sorted_once(*times);
  if (days.size() < 2) return std::nullopt;
  const bool steady = are_months_apart(days) || are_days_apart(days);
  const bool regular = steady || are_weekdays(days);

  const double even = steady ? static_cast<double>(days.size() - 1) : evenness(days);
  const double even_numbers = evenness(sorted_once(*parse_all(cells, number)));
  const auto others = parse_months_or_weeks(cells);
  const double even_others = others ? evenness(sorted_once(*others)) : -1;
  constexpr Moment k2100 = 4102444800;
  const bool far = others && *std::ranges::min_element(*others) >= k2100;
  // Some days of 2021 may be missing: weeks of 2101 are no better.
  const bool increasing = std::ranges::adjacent_find(*times, std::greater_equal()) == times->end();
  const bool mostly_even = increasing && 2 * even > static_cast<double>(days.size() - 1);
  if (!regular && !(far && mostly_even)) return std::nullopt;
  return ShortDates{.times = std::move(*times),
                    .likely = far || even > std::max(even_numbers, even_others),
                    .maybe_numbers = even_numbers >= even};
}

}  // namespace ingot::forecast
