#include "ingot/forecast/calendar.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86400, kWeek = 7 * kDay;

struct Civil {
  std::int64_t year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(static_cast<int>(year)),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  return sys_days(date).time_since_epoch().count();
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Civil civil_of(Moment moment) {
  using namespace std::chrono;
  const std::int64_t day = floor_div(moment, kDay);
  const std::int64_t rest = moment - day * kDay;
  const year_month_day date{sys_days(days(day))};
  return {static_cast<int>(date.year()),
          static_cast<std::int64_t>(static_cast<unsigned>(date.month())),
          static_cast<std::int64_t>(static_cast<unsigned>(date.day())),
          rest / kHour,
          rest % kHour / kMinute,
          rest % kMinute};
}

std::int64_t last_day(std::int64_t year, std::int64_t month) {
  using namespace std::chrono;
  const year_month_day_last last{std::chrono::year(static_cast<int>(year)),
                                 month_day_last(std::chrono::month(static_cast<unsigned>(month)))};
  return static_cast<std::int64_t>(static_cast<unsigned>(last.day()));
}

// Monday is 0; 1970-01-01 was a Thursday, day 3 of week 0.
std::int64_t week_of(Moment moment) { return floor_div(moment + 3 * kDay, kWeek); }
std::int64_t weekday_of(Moment moment) {
  return floor_div(moment + 3 * kDay - week_of(moment) * kWeek, kDay);
}
bool on_weekend(Moment moment) { return weekday_of(moment) > 4; }

// The day that `month_day` stands for in one month.
std::int64_t day_in_month(std::int64_t year, std::int64_t month, std::int64_t month_day) {
  const std::int64_t last = last_day(year, month);
  std::int64_t day = month_day == kFirstBusinessDay ? 1 : last;
  if (month_day > 0) return std::min(month_day, last);
  while (on_weekend(days_of(year, month, day) * kDay)) day += month_day == kFirstBusinessDay ? 1 : -1;
  return day;
}

// Takes characters off the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool done() const { return text_.empty(); }
  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  /// `least` to `most` digits.
  bool digits(std::size_t least, std::size_t most, std::int64_t& value) {
    std::size_t n = 0;
    while (n < most && n < text_.size() && text_[n] >= '0' && text_[n] <= '9') ++n;
    if (n < least) return false;
    std::from_chars(text_.data(), text_.data() + n, value);
    text_.remove_prefix(n);
    return true;
  }

 private:
  std::string_view text_;
};

// [ T]hh:mm[:ss[.fff]][Z|+hh:mm]
bool parse_clock(Scanner& scan, Civil& civil, DateStyle& style) {
  style.letter_t = scan.take('T');
  if (!style.letter_t && !scan.take(' ')) return false;
  style.time = true;
  if (!scan.digits(1, 2, civil.hour) || !scan.take(':') || !scan.digits(2, 2, civil.minute)) return false;
  if (scan.take(':')) {
    style.seconds = true;
    if (!scan.digits(2, 2, civil.second)) return false;
    std::int64_t fraction = 0;
    if (scan.take('.') && (!scan.digits(1, 9, fraction) || fraction != 0)) return false;
  }
  style.zone = scan.take('Z');
  const bool east = !style.zone && scan.take('+');
  if (east || (!style.zone && scan.take('-'))) {
    std::int64_t hours = 0, minutes = 0;
    if (!scan.digits(2, 2, hours)) return false;
    scan.take(':');
    if (!scan.done() && !scan.digits(2, 2, minutes)) return false;
    if (hours > 23 || minutes > 59) return false;
    style.offset = (east ? 1 : -1) * (hours * kHour + minutes * kMinute);
    style.zone = true;
  }
  return civil.hour < 24 && civil.minute < 60 && civil.second < 60;
}

std::optional<Moment> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.size() > 15) return std::nullopt;
  return value;
}

// What follows the year of 2016Q3.
bool parse_quarter(Scanner& scan, Civil& civil, DateStyle& style) {
  std::int64_t quarter = 0;
  style.month_only = true;
  if (!scan.digits(1, 1, quarter) || quarter < 1 || quarter > 4) return false;
  civil.month = 3 * quarter - 2;
  return true;
}

// What follows the year of 2016-07, 2016-07-01, 20160701 12:00.
bool parse_month(Scanner& scan, Civil& civil, DateStyle& style) {
  const std::size_t digits = style.compact ? 2 : 1;
  if (!scan.digits(digits, 2, civil.month) || civil.month < 1 || civil.month > 12) return false;
  style.month_only = scan.done();
  if (style.month_only) return true;
  if (!style.compact && !scan.take(style.slashes ? '/' : '-')) return false;
  if (!scan.digits(digits, 2, civil.day) || civil.day < 1) return false;
  if (civil.day > last_day(civil.year, civil.month)) return false;
  return scan.done() || parse_clock(scan, civil, style);
}

// A date that is no plain number, but may be of digits alone.
std::optional<Moment> parse_date(std::string_view text, DateStyle& style) {
  Scanner scan(text);
  Civil c;
  if (!scan.digits(4, 4, c.year)) return std::nullopt;
  style.slashes = scan.take('/');
  style.compact = !style.slashes && !scan.take('-');
  style.quarter = scan.take('Q');
  const auto parse_rest = style.quarter ? parse_quarter : parse_month;
  if (!parse_rest(scan, c, style) || !scan.done()) return std::nullopt;
  return days_of(c.year, c.month, c.day) * kDay + c.hour * kHour + c.minute * kMinute + c.second -
         style.offset;
}

std::int64_t month_index(Moment moment) {
  const Civil c = civil_of(moment);
  return c.year * 12 + c.month - 1;
}

// Counts the days from Monday to Friday.
std::int64_t business_index(Moment moment) { return week_of(moment) * 5 + weekday_of(moment); }

Moment advance_business_days(Moment moment, std::int64_t days) {
  const std::int64_t index = business_index(moment) + days, week = floor_div(index, 5);
  return week * kWeek + (index - week * 5 - 3) * kDay + time_of_day(moment);
}

// More than any two rows of a table are apart: numbers of 15 digits, dates of four-digit years. Every
// frequency that is inferred can be read again.
std::int64_t widest(Frequency::Unit unit) {
  constexpr std::int64_t kYears = 10'000;
  switch (unit) {
    case Frequency::Unit::count:
      return 2'000'000'000'000'000;
    case Frequency::Unit::seconds:
      return kYears * 366 * kDay;
    case Frequency::Unit::months:
      return kYears * 12;
    case Frequency::Unit::business_days:
      return kYears * 262;
  }
  return 0;
}

bool same_place_in_month(std::span<const Moment> moments) {
  const std::int64_t month_day = month_day_of(moments);
  return std::ranges::all_of(moments, [&](Moment m) {
    const Civil c = civil_of(m);
    return c.day == day_in_month(c.year, c.month, month_day) &&
           time_of_day(m) == time_of_day(moments.front());
  });
}

}  // namespace

std::int64_t time_of_day(Moment moment) { return moment - floor_div(moment, kDay) * kDay; }

void DateStyle::widen(const DateStyle& row) {
  time |= row.time;
  seconds |= row.seconds;
  letter_t |= row.letter_t;
  month_only &= row.month_only;
  quarter &= row.quarter;
}

void DateStyle::widen(const Frequency& frequency) {
  const bool months = frequency.unit == Frequency::Unit::months;
  quarter &= months && frequency.step % 3 == 0;
  if (number || months) return;
  month_only = false;
  if (frequency.unit != Frequency::Unit::seconds) return;
  time |= frequency.step % kDay != 0;
  seconds |= frequency.step % kMinute != 0;
}

std::optional<Moment> parse_moment(std::string_view text, DateStyle* style) {
  DateStyle found;
  const auto number = parse_integer(text);
  found.number = number.has_value();
  const auto moment = number ? number : parse_date(text, found);
  if (moment && style != nullptr) *style = found;
  return moment;
}

std::optional<Moment> parse_compact_date(std::string_view text, DateStyle* style) {
  if (text < "1800" || text >= "2200" || !parse_integer(text)) return std::nullopt;
  DateStyle found;
  const auto moment = parse_date(text, found);
  if (moment && style != nullptr) *style = found;
  return moment;
}

std::string format_offset(std::int64_t seconds) {
  if (seconds == 0) return "Z";
  const std::int64_t minutes = std::abs(seconds) / kMinute;
  return fmt::format("{}{:02}:{:02}", seconds < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::string format_moment(Moment moment, const DateStyle& style) {
  if (style.number) return std::to_string(moment);
  const Civil c = civil_of(style.own_clock ? moment : moment + style.offset);
  const std::string_view dash = style.compact ? "" : style.slashes ? "/" : "-";
  if (style.quarter) return fmt::format("{:04}{}Q{}", c.year, dash, (c.month + 2) / 3);
  std::string text = fmt::format("{:04}{}{:02}", c.year, dash, c.month);
  if (style.month_only) return text;
  text += fmt::format("{}{:02}", dash, c.day);
  if (!style.time) return text;
  text += fmt::format("{}{:02}:{:02}", style.letter_t ? 'T' : ' ', c.hour, c.minute);
  if (style.seconds) text += fmt::format(":{:02}", c.second);
  return style.zone ? text + format_offset(style.offset) : text;
}

bool skip_weekends(std::span<const Moment> days) {
  return std::ranges::none_of(days, on_weekend) &&
         std::ranges::any_of(days, [&](Moment m) { return week_of(m) != week_of(days.front()); });
}

std::int64_t month_day_of(std::span<const Moment> moments) {
  std::int64_t latest = 1;
  for (const Moment moment : moments) latest = std::max(latest, civil_of(moment).day);
  const auto all = [&](auto holds) {
    return std::ranges::all_of(moments, [&](Moment m) { return holds(civil_of(m)); });
  };
  const auto before_end = [](const Civil& c) { return last_day(c.year, c.month) - c.day; };
  if (all([&](const Civil& c) { return before_end(c) == 0; })) return 31;
  if (all([&](const Civil& c) { return c.day == std::min(latest, c.day + before_end(c)); })) return latest;
  if (std::ranges::any_of(moments, on_weekend)) return latest;
  // A weekend and two holidays may lie between.
  if (all([](const Civil& c) { return c.day <= 5; })) return kFirstBusinessDay;
  return all([&](const Civil& c) { return before_end(c) < 5; }) ? kLastBusinessDay : latest;
}

std::string Frequency::name() const {
  const auto with = [](std::int64_t count, std::string_view unit) {
    return count == 1 ? std::string(unit) : fmt::format("{}{}", count, unit);
  };
  if (unit == Unit::count) return step == 1 ? "1 row" : fmt::format("{} rows", step);
  if (unit == Unit::business_days) return with(step, "B");
  if (unit == Unit::months) {
    if (step % 12 == 0) return with(step / 12, "YS");
    return step % 3 == 0 ? with(step / 3, "QS") : with(step, "MS");
  }
  if (step % kWeek == 0) return with(step / kWeek, "W");
  if (step % kDay == 0) return with(step / kDay, "D");
  if (step % kHour == 0) return with(step / kHour, "h");
  return step % kMinute == 0 ? with(step / kMinute, "min") : with(step, "s");
}

std::string Frequency::in_words() const {
  const auto with = [](std::int64_t count, std::string_view word) {
    return count == 1 ? std::string(word) : fmt::format("{} {}s", count, word);
  };
  switch (unit) {
    case Unit::count:
      return with(step, "step");
    case Unit::business_days:
      return with(step, "business day");
    case Unit::months:
      if (step % 12 == 0) return with(step / 12, "year");
      return step % 3 == 0 ? with(step / 3, "quarter") : with(step, "month");
    case Unit::seconds:
      break;
  }
  for (const auto& [seconds, word] :
       {std::pair{kWeek, "week"}, {kDay, "day"}, {kHour, "hour"}, {kMinute, "minute"}}) {
    if (step % seconds == 0) return with(step / seconds, word);
  }
  return with(step, "second");
}

Moment Frequency::advance(Moment moment, std::int64_t steps, std::int64_t month_day) const {
  if (unit == Unit::business_days) return advance_business_days(moment, steps * step);
  if (unit != Unit::months) return moment + steps * step;
  const Civil c = civil_of(moment);
  const std::int64_t index = c.year * 12 + c.month - 1 + steps * step;
  const std::int64_t year = floor_div(index, 12), month = index - year * 12 + 1;
  const std::int64_t day = day_in_month(year, month, month_day != 0 ? month_day : c.day);
  return days_of(year, month, day) * kDay + time_of_day(moment);
}

std::optional<std::int64_t> Frequency::distance(Moment a, Moment b) const {
  std::int64_t units = b - a;
  if (unit == Unit::months) units = month_index(b) - month_index(a);
  if (unit == Unit::business_days) {
    if (on_weekend(a) || on_weekend(b) || time_of_day(a) != time_of_day(b)) return std::nullopt;
    units = business_index(b) - business_index(a);
  }
  return units % step == 0 ? std::optional(units / step) : std::nullopt;
}

std::int64_t Frequency::season() const {
  if (unit == Unit::count) return 1;
  if (unit == Unit::months) return step <= 12 && 12 % step == 0 ? 12 / step : 1;
  if (unit == Unit::business_days) return step == 1 ? 5 : 1;
  if (step < kDay && kDay % step == 0) return kDay / step;
  if (step == kDay) return 7;
  return step == kWeek ? 52 : 1;
}

Frequency parse_frequency(std::string_view text, std::string_view key) {
  using enum Frequency::Unit;
  static const std::map<std::string_view, Frequency> units{
      {"s", {seconds, 1}},       {"S", {seconds, 1}},       {"min", {seconds, kMinute}},
      {"T", {seconds, kMinute}}, {"t", {seconds, kMinute}}, {"h", {seconds, kHour}},
      {"H", {seconds, kHour}},   {"d", {seconds, kDay}},    {"D", {seconds, kDay}},
      {"b", {business_days, 1}}, {"B", {business_days, 1}}, {"w", {seconds, kWeek}},
      {"W", {seconds, kWeek}},   {"M", {months, 1}},        {"MS", {months, 1}},
      {"ME", {months, 1}},       {"month", {months, 1}},    {"Q", {months, 3}},
      {"QS", {months, 3}},       {"QE", {months, 3}},       {"Y", {months, 12}},
      {"YS", {months, 12}},      {"YE", {months, 12}},      {" row", {count, 1}},
      {" rows", {count, 1}}};
  std::int64_t steps = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  const std::string_view word = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto found = units.find(word);
  INGOT_CHECK(
      found != units.end() && steps > 0 && error != std::errc::result_out_of_range &&
          steps <= widest(found->second.unit) / found->second.step,
      InvalidConfig(std::string(key),
                    fmt::format("'{}' is no frequency; expected one like 15min, h, D, B, W, MS, QS", text)));
  return {found->second.unit, found->second.step * steps};
}

std::optional<Frequency> months_between(std::span<const Moment> moments) {
  std::int64_t step = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const std::int64_t d = month_index(moments[i]) - month_index(moments[i - 1]);
    if (d <= 0) return std::nullopt;
    step = step == 0 ? d : std::min(step, d);
  }
  const bool multiples = std::ranges::adjacent_find(moments, [&](Moment a, Moment b) {
                           return (month_index(b) - month_index(a)) % step != 0;
                         }) == moments.end();
  return multiples ? std::optional(Frequency{Frequency::Unit::months, step}) : std::nullopt;
}

std::optional<Frequency> infer_frequency(std::span<const Moment> moments, bool numbers, std::size_t* odd) {
  if (odd != nullptr) *odd = 0;
  if (moments.size() < 2) return std::nullopt;
  std::map<std::int64_t, std::size_t> counts;
  for (std::size_t i = 1; i < moments.size(); ++i) ++counts[moments[i] - moments[i - 1]];
  const auto commonest = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  if (!numbers && commonest->first >= 28 * kDay && same_place_in_month(moments)) {
    if (const auto months = months_between(moments)) return months;
  }
  const Frequency frequency{numbers ? Frequency::Unit::count : Frequency::Unit::seconds, commonest->first};
  if (frequency.step <= 0) return std::nullopt;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    if ((moments[i] - moments[i - 1]) % frequency.step == 0) continue;
    if (odd != nullptr) *odd = i;
    return std::nullopt;
  }
  return frequency;
}

namespace {

enum class Feature : std::uint8_t {
  second_of_minute,
  minute_of_hour,
  hour_of_day,
  day_of_week,
  day_of_month,
  day_of_year,
  week_of_year,
  month_of_year
};

std::vector<Feature> features_of(const Frequency& f) {
  using enum Feature;
  if (f.unit == Frequency::Unit::count) return {};
  if (f.unit == Frequency::Unit::months) {
    return f.step % 12 == 0 ? std::vector<Feature>{} : std::vector<Feature>{month_of_year};
  }
  if (f.unit == Frequency::Unit::business_days) return {day_of_week, day_of_month, day_of_year};
  if (f.step % kWeek == 0) return {day_of_month, week_of_year};
  if (f.step % kDay == 0) return {day_of_week, day_of_month, day_of_year};
  if (f.step % kHour == 0) return {hour_of_day, day_of_week, day_of_month, day_of_year};
  std::vector<Feature> all{minute_of_hour, hour_of_day, day_of_week, day_of_month, day_of_year};
  if (f.step % kMinute != 0) all.insert(all.begin(), second_of_minute);
  return all;
}

// ISO 8601: the week of the year's first Thursday is week 1.
std::int64_t iso_week(Moment moment) {
  const Moment thursday = week_of(moment) * kWeek;
  return (thursday / kDay - days_of(civil_of(thursday).year, 1, 1)) / 7 + 1;
}

double value_of(Feature feature, Moment moment) {
  const Civil c = civil_of(moment);
  const std::int64_t day = floor_div(moment, kDay);
  const auto scaled = [](std::int64_t value, double most) { return static_cast<double>(value) / most - 0.5; };
  switch (feature) {
    case Feature::second_of_minute:
      return scaled(c.second, 59);
    case Feature::minute_of_hour:
      return scaled(c.minute, 59);
    case Feature::hour_of_day:
      return scaled(c.hour, 23);
    case Feature::day_of_week:
      return scaled(weekday_of(moment), 6);
    case Feature::day_of_month:
      return scaled(c.day - 1, 30);
    case Feature::day_of_year:
      return scaled(day - days_of(c.year, 1, 1), 365);
    case Feature::week_of_year:
      return scaled(iso_week(moment) - 1, 52);
    case Feature::month_of_year:
      return scaled(c.month - 1, 11);
  }
  return 0;
}

}  // namespace

std::vector<std::string> time_feature_names(const Frequency& frequency) {
  static const std::vector<std::string> names{"second_of_minute", "minute_of_hour", "hour_of_day",
                                              "day_of_week",      "day_of_month",   "day_of_year",
                                              "week_of_year",     "month_of_year"};
  std::vector<std::string> found;
  for (const Feature f : features_of(frequency)) found.push_back(names[static_cast<std::size_t>(f)]);
  return found;
}

void time_features(Moment moment, const Frequency& frequency, std::span<float> out) {
  std::size_t i = 0;
  for (const Feature f : features_of(frequency)) out[i++] = static_cast<float>(value_of(f, moment));
}

}  // namespace ingot::forecast
