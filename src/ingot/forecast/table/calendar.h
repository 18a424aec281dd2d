#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::forecast {

/// A moment: seconds since 1970-01-01 00:00, or a plain number where a table counts its rows (1, 2, 3).
using Moment = std::int64_t;

/// Seconds since midnight.
std::int64_t time_of_day(Moment moment);

/// The distance of two rows.
struct Frequency {
  enum class Unit : std::uint8_t { count, seconds, months, business_days };
  Unit unit = Unit::count;
  std::int64_t step = 1;

  bool operator==(const Frequency&) const = default;
  /// "15min", "h", "D", "B", "W", "MS", "QS", "YS", "1 row": the words of pandas.
  std::string name() const;
  /// "15 minutes", "day", "business day", "quarter": what one row is for.
  std::string in_words() const;
  /// `steps` rows after `moment`. Months go on at day `month_day`, or at their last where they are shorter,
  /// or at the business day that it stands for; 0: the day of `moment`.
  Moment advance(Moment moment, std::int64_t steps, std::int64_t month_day = 0) const;
  /// Rows from `a` to `b`; nothing where b is not a whole number of steps away.
  std::optional<std::int64_t> distance(Moment a, Moment b) const;
  /// Rows in one natural cycle: a day of hours or minutes, a week of days, a year of weeks, months, quarters.
  /// 1 where none is known.
  std::int64_t season() const;
};

/// Reads what name() writes, and "1h", "30s", "month", "W-SUN", "QS-OCT" and their like. InvalidConfig for
/// `key` otherwise.
Frequency parse_frequency(std::string_view text, std::string_view key = "frequency");

/// The frequency that ascending moments have: the commonest distance, where every other is a multiple of it
/// (rows are missing there). Otherwise nothing, and `odd` is the first index whose distance to the one before
/// does not fit.
std::optional<Frequency> infer_frequency(std::span<const Moment> moments, bool numbers, std::size_t* odd);
/// The months between ascending moments, whatever day they lie on; nothing where two are of one month, or are
/// no multiple of the least distance apart.
std::optional<Frequency> months_between(std::span<const Moment> moments);
/// Whether days are those from Monday to Friday: none of them is on a weekend, and they are of several weeks.
bool skip_weekends(std::span<const Moment> days);
/// Days of months that are not numbers: the first and the last that is not on a weekend.
inline constexpr std::int64_t kFirstBusinessDay = -1, kLastBusinessDay = -2;
/// The day of the month that rows lie on: 31 where each is the last of its month; a business day where all
/// are near it and none is on a weekend (it may have been a holiday); else the latest of all.
std::int64_t month_day_of(std::span<const Moment> moments);

/// Names of the calendar features that suit a frequency, in GluonTS' order: hourly data has hour of day, day
/// of week, day of month and day of year.
std::vector<std::string> time_feature_names(const Frequency& frequency);
/// Their values for one moment, each in [-0.5, 0.5].
void time_features(Moment moment, const Frequency& frequency, std::span<float> out);

}  // namespace ingot::forecast
