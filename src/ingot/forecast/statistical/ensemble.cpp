#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {

LocalForecast ensemble_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  const std::array members{ets_forecast(x, season, horizon), arima_forecast(x, season, horizon),
                           theta_forecast(x, season, horizon)};
  LocalForecast f;
  f.form = fmt::format("median of {}, {}, {}", members[0].form, members[1].form, members[2].form);
  for (std::size_t h = 0; h < static_cast<std::size_t>(horizon); ++h) {
    std::array<double, 3> means{}, deviations{};
    for (std::size_t i = 0; i < members.size(); ++i) {
      means[i] = members[i].mean[h];
      deviations[i] = members[i].deviation[h];
    }
    std::ranges::sort(means);
    f.mean.push_back(means[1]);
    f.deviation.push_back(std::ranges::max(deviations));
  }
  return f;
}

}  // namespace ingot::forecast
