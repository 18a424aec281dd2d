#pragma once

#include <chrono>
#include <cstdint>

// Seconds since 1970-01-01 00:00 and the days of the proleptic Gregorian calendar.
namespace ingot::forecast {

inline constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86400, kWeek = 7 * kDay;

struct Civil {
  std::int64_t year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Days since 1970-01-01.
inline std::int64_t days_of(std::int64_t year, std::int64_t month, std::int64_t day) {
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(static_cast<int>(year)),
                            std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  return sys_days(date).time_since_epoch().count();
}

inline Civil civil_of(std::int64_t moment) {
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

inline std::int64_t moment_of(const Civil& c) {
  return days_of(c.year, c.month, c.day) * kDay + c.hour * kHour + c.minute * kMinute + c.second;
}

inline std::int64_t last_day(std::int64_t year, std::int64_t month) {
  using namespace std::chrono;
  const year_month_day_last last{std::chrono::year(static_cast<int>(year)),
                                 month_day_last(std::chrono::month(static_cast<unsigned>(month)))};
  return static_cast<std::int64_t>(static_cast<unsigned>(last.day()));
}

/// Weeks since that of 1970-01-01, a Thursday. Monday is day 0.
inline std::int64_t week_of(std::int64_t moment) { return floor_div(moment + 3 * kDay, kWeek); }
inline std::int64_t weekday_of(std::int64_t moment) {
  return floor_div(moment + 3 * kDay - week_of(moment) * kWeek, kDay);
}

/// ISO 8601: the week of a year's first Thursday is its week 1.
struct IsoWeek {
  std::int64_t year, week;
};
inline IsoWeek iso_week_of(std::int64_t moment) {
  const std::int64_t thursday = week_of(moment) * kWeek, year = civil_of(thursday).year;
  return {year, (thursday / kDay - days_of(year, 1, 1)) / 7 + 1};
}
/// The Monday of a week; week 53 of a year that has none is week 1 of the next.
inline std::int64_t monday_of(const IsoWeek& w) {
  return week_of(days_of(w.year, 1, 4) * kDay) * kWeek - 3 * kDay + (w.week - 1) * kWeek;
}

}  // namespace ingot::forecast
