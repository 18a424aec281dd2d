#include "ingot/forecast/table/alike_dates.h"

#include <algorithm>

#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

constexpr std::size_t kDate = std::string_view("2016-07-01").size();
constexpr std::size_t kMinutes = std::string_view("2016-07-01 13:00").size();
constexpr std::size_t kSeconds = std::string_view("2016-07-01 13:00:00").size();

// So many digits at a place; -1 where others stand there.
std::int64_t digits_at(std::string_view text, std::size_t at, std::size_t count) {
  std::int64_t value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

bool has_marks(std::string_view text) {
  const auto has = [&](std::size_t at, char mark) { return at >= text.size() || text[at] == mark; };
  const bool whole = text.size() == kDate || text.size() == kMinutes || text.size() >= kSeconds;
  return whole && has(4, '-') && has(7, '-') && has(13, ':') && has(16, ':') && has(kSeconds, '.') &&
         text.size() != kSeconds + 1;
}

// Nothing for what is written in another way, has a fraction of a second, or is not a date.
std::optional<Moment> iso_moment(std::string_view text) {
  if (!has_marks(text)) return std::nullopt;
  const std::size_t fraction = std::min(text.size(), kSeconds + 1);
  if (text.substr(fraction).find_first_not_of('0') != std::string_view::npos) return std::nullopt;
  Civil c{.year = digits_at(text, 0, 4), .month = digits_at(text, 5, 2), .day = digits_at(text, 8, 2)};
  if (text.size() > kDate) {
    c.hour = digits_at(text, kDate + 1, 2);
    c.minute = digits_at(text, kMinutes - 2, 2);
  }
  if (text.size() > kMinutes) c.second = digits_at(text, kSeconds - 2, 2);
  constexpr std::int64_t kFirstYear = 1000;
  const bool is_day = c.year >= kFirstYear && c.month >= 1 && c.month <= 12 && c.day >= 1 &&
                      c.day <= last_day(c.year, c.month);
  const bool is_time =
      c.hour >= 0 && c.hour <= 23 && c.minute >= 0 && c.minute <= 59 && c.second >= 0 && c.second <= 59;
  return is_day && is_time ? std::optional(moment_of(c)) : std::nullopt;
}

}  // namespace

std::optional<Moment> AlikeDates::parse(std::string_view text, DateStyle* style, DateOrder order, int names) {
  const char separator = text.size() > kDate ? text[kDate] : '\0';
  if (length_ != 0 && text.size() == length_ && separator == separator_) {
    if (const auto moment = iso_moment(text)) {
      *style = style_;
      return moment;
    }
  }
  const auto moment = parse_moment(text, style, order, names);
  // A style that parse_moment found otherwise is another way to write, which is left to it.
  if (length_ == 0 && moment && style->date == "%Y-%m-%d" && style->zone.empty() &&
      iso_moment(text) == moment) {
    length_ = text.size();
    separator_ = separator;
    style_ = *style;
  }
  return moment;
}

}  // namespace ingot::forecast
