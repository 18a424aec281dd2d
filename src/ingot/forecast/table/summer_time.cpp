#include "ingot/forecast/table/summer_time.h"

#include <algorithm>
#include <map>

#include "ingot/forecast/table/civil.h"

namespace ingot::forecast {
namespace {

std::int64_t commonest_distance(std::span<const Moment> moments) {
  std::map<std::int64_t, std::size_t> counts;
  for (std::size_t i = 1; i < moments.size(); ++i) ++counts[moments[i] - moments[i - 1]];
  return counts.empty() ? 0
                        : std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
}

// Clocks change in nights to Sundays: in March or April, and from September to November.
bool may_change_clocks(Moment moment) {
  const Civil c = civil_of(moment);
  return weekday_of(moment) == 6 && c.hour <= 4 &&
         (c.month == 3 || c.month == 4 || (c.month >= 9 && c.month <= 11));
}

}  // namespace

std::optional<std::size_t> even_out_summer_time(std::span<Moment> moments) {
  const std::int64_t step = commonest_distance(moments);
  if (step <= 0 || step > kHour || kHour % step != 0) return std::nullopt;
  std::optional<std::size_t> first;
  Moment last_fold = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    if (moments[i] - moments[i - 1] != step - kHour || !may_change_clocks(moments[i])) continue;
    if (first && moments[i] - last_fold < 300 * kDay) return std::nullopt;  // once a year
    if (!first) first = i;
    last_fold = moments[i];
  }
  if (!first) return std::nullopt;
  std::int64_t shift = 0;
  Moment before = moments[0];
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const Moment clock = moments[i];
    const std::int64_t distance = clock - before;
    if (may_change_clocks(clock) && distance == step - kHour) shift += kHour;
    if (may_change_clocks(clock) && distance == step + kHour) shift -= kHour;
    moments[i] = clock + shift;
    before = clock;
  }
  for (Moment& moment : moments) moment -= shift;
  return first;
}

}  // namespace ingot::forecast
