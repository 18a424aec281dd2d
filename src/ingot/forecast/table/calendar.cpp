#include "ingot/forecast/table/calendar.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/forecast/table/civil.h"
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

bool on_weekend(Moment moment) { return weekday_of(moment) > 4; }

// The day that `month_day` stands for in one month.
std::int64_t day_in_month(std::int64_t year, std::int64_t month, std::int64_t month_day) {
  const std::int64_t last = last_day(year, month);
  std::int64_t day = month_day == kFirstBusinessDay ? 1 : last;
  if (month_day > 0) return std::min(month_day, last);
  while (on_weekend(days_of(year, month, day) * kDay)) day += month_day == kFirstBusinessDay ? 1 : -1;
  return day;
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
      if (step % 6 == 0) return with(step / 6, "half-year");
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

namespace {

// pandas' "W-SUN", "QS-OCT", "YE-DEC": rows begin where the first does, so what is behind the dash is known.
std::string_view without_anchor(std::string_view word) {
  const std::size_t dash = std::min(word.find('-'), word.size());
  const std::string_view unit = word.substr(0, dash);
  if (dash == word.size() || word.size() - dash != 4) return word;
  const std::string_view anchor = word.substr(dash + 1);
  const bool known = unit == "W" ? find_name(kDayNames, anchor).has_value()
                                 : (unit.starts_with('Q') || unit.starts_with('Y') || unit.starts_with('A') ||
                                    unit.starts_with("BQ") || unit.starts_with("BY")) &&
                                       find_name(kMonthNames, anchor);
  return known ? unit : word;
}

}  // namespace

Frequency parse_frequency(std::string_view text, std::string_view key) {
  using enum Frequency::Unit;
  static const std::map<std::string_view, Frequency> units{
      {"s", {seconds, 1}},        {"S", {seconds, 1}},       {"min", {seconds, kMinute}},
      {"T", {seconds, kMinute}},  {"t", {seconds, kMinute}}, {"h", {seconds, kHour}},
      {"H", {seconds, kHour}},    {"d", {seconds, kDay}},    {"D", {seconds, kDay}},
      {"b", {business_days, 1}},  {"B", {business_days, 1}}, {"w", {seconds, kWeek}},
      {"W", {seconds, kWeek}},    {"M", {months, 1}},        {"MS", {months, 1}},
      {"ME", {months, 1}},        {"month", {months, 1}},    {"Q", {months, 3}},
      {"QS", {months, 3}},        {"QE", {months, 3}},       {"Y", {months, 12}},
      {"YS", {months, 12}},       {"YE", {months, 12}},      {"A", {months, 12}},
      {"AS", {months, 12}},       {"BMS", {months, 1}},      {"BM", {months, 1}},
      {"BME", {months, 1}},       {"BQS", {months, 3}},      {"BQ", {months, 3}},
      {"BQE", {months, 3}},       {"BYS", {months, 12}},     {"BYE", {months, 12}},
      {"hour", {seconds, kHour}}, {"day", {seconds, kDay}},  {"week", {seconds, kWeek}},
      {"quarter", {months, 3}},   {"year", {months, 12}},    {" row", {count, 1}},
      {" rows", {count, 1}}};
  std::int64_t steps = 1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  const std::string_view word = without_anchor(text.substr(static_cast<std::size_t>(end - text.data())));
  const auto found = units.find(word);
  INGOT_CHECK(
      found != units.end() && steps > 0 && error != std::errc::result_out_of_range &&
          steps <= widest(found->second.unit) / found->second.step,
      InvalidConfig(
          std::string(key),
          fmt::format("'{}' is not a frequency; expected one like 15min, h, D, B, W, W-SUN, MS, QS", text)));
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

namespace {

// Days of which some are missing, as in a table of sales that has rows for days with a sale: all distances
// are whole days, and at least one in eight is there.
std::optional<Frequency> sparse_days(std::span<const Moment> moments) {
  std::int64_t step = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) step = std::gcd(step, moments[i] - moments[i - 1]);
  const std::int64_t whole = step == 0 ? 0 : (moments.back() - moments.front()) / step + 1;
  const bool dense = static_cast<std::int64_t>(moments.size()) * 8 >= whole && moments.size() >= 4;
  if (step < kDay || step % kDay != 0 || !dense) return std::nullopt;
  return Frequency{Frequency::Unit::seconds, step};
}

// The row that breaks a grid: the last one where the others lie on one, else the first that does.
std::size_t odd_one(std::span<const Moment> moments, bool numbers, std::size_t first) {
  const auto others = moments.first(moments.size() - 1);
  const bool months = !numbers && same_place_in_month(others) && months_between(others);
  return first < others.size() && months ? others.size() : first;
}

}  // namespace

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
    // One date of many that is off is an error of the table.
    const bool regular = commonest->second * 5 >= (moments.size() - 1) * 4;
    if (const auto days = numbers || regular ? std::nullopt : sparse_days(moments)) return days;
    if (odd != nullptr) *odd = odd_one(moments, numbers, i);
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
      return scaled(iso_week_of(moment).week - 1, 52);
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
