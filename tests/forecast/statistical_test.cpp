#include <cmath>

#include "tests/support/source_dir.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/forecast/statistical/local_model.h"

namespace ingot::forecast {
namespace {

using Values = std::vector<double>;

// What statsforecast says (tools/goldens/statistical_goldens.py): series of months, quarters, years and days.
nlohmann::json goldens() {
  return nlohmann::json::parse(
      read_file(std::string(test::source_dir()) + "/tests/forecast/goldens/statistical.json"));
}

// Mean |a - b| over mean |b|.
double relative_difference(const Values& a, const Values& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::abs(a[i] - b[i]);
    size += std::abs(b[i]);
  }
  return difference / size;
}

TEST(Statistical, ForecastsAreThoseOfStatsforecast) {
  const nlohmann::json all = goldens();
  for (const auto& [name, entry] : all.items()) {
    const Values x = entry["values"];
    for (const auto& [model, expected] : entry["forecasts"].items()) {
      const Values mean = expected["mean"];
      const LocalForecast f = local_model(model)(x, entry["season"], static_cast<std::int64_t>(mean.size()));
      EXPECT_LT(relative_difference(f.mean, mean), 0.02) << name << ": " << f.form;
      if (!expected.contains("high")) continue;
      Values high;
      for (std::size_t h = 0; h < mean.size(); ++h) high.push_back(f.interval(90, h).second);
      EXPECT_LT(relative_difference(high, expected["high"]), 0.04) << name << ": " << f.form;
    }
  }
}

TEST(Statistical, ArimaOfThreeRowsIsTheirMean) {
  const std::vector<double> rows{100, 106.75, 108.8};
  const LocalForecast forecast = arima_forecast(rows, 1, 2);
  EXPECT_NEAR(forecast.mean[0], 105.183, 1e-3);  // statsforecast's AutoARIMA
  EXPECT_NEAR(forecast.mean[1], 105.183, 1e-3);
  EXPECT_GT(forecast.deviation[0], 0);
}

TEST(Statistical, ArimaOfFourRowsKeepsTheirMean) {
  const std::vector<double> x{134019, 139712, 222190, 213367};
  for (const double value : local_model("arima")(x, 1, 3).mean) EXPECT_NEAR(value, 177322, 1);
}

TEST(Statistical, ThetaOfFewRowsHasIntervals) {
  for (const std::vector<double>& x : {std::vector<double>{5, 9, 7}, {5, 9, 7, 12}}) {
    for (const double deviation : local_model("theta")(x, 1, 3).deviation) EXPECT_GT(deviation, 0.5);
  }
}

TEST(Statistical, SeasonalNaiveOfLessThanASeasonIsTheLastRow) {
  const Values x{3600, 7700, 12300, 30500, 47390, 57600, 67500, 79300, 95000};
  const LocalForecast f = local_model("seasonal_naive")(x, 12, 3);
  EXPECT_EQ(f.mean, (Values{95000, 95000, 95000}));
  EXPECT_EQ(f.form, "naive: fewer rows than a season");
  const LocalForecast whole = local_model("seasonal_naive")(x, 9, 3);
  EXPECT_EQ(whole.mean, (Values{3600, 7700, 12300}));
  for (const LocalForecast& each : {f, whole})
    for (const double deviation : each.deviation) EXPECT_GT(deviation, 0);
}

TEST(Statistical, EtsFindsTheFormOfARow) {
  Values line, wave;
  for (int i = 0; i < 60; ++i) {
    line.push_back(10 + 3 * i + 0.01 * ((i * 37) % 11));
    wave.push_back((100 + i) * (1 + 0.3 * std::sin(i * 6.283185307179586 / 12)) + 0.01 * ((i * 37) % 11));
  }
  const LocalForecast straight = ets_forecast(line, 1, 4);
  EXPECT_NEAR(straight.mean[3], 10 + 3 * 63, 0.5);
  const LocalForecast seasonal = ets_forecast(wave, 12, 12);
  EXPECT_NE(seasonal.form.find(",M)"), std::string::npos) << seasonal.form;
  EXPECT_NEAR(seasonal.mean[3], 163 * 1.3, 3);
  EXPECT_NEAR(seasonal.mean[9], 169 * 0.7, 3);
}

TEST(Statistical, EveryModelTakesAnyHistory) {
  for (const std::string& name : local_models()) {
    for (const Values& x : {Values{5}, Values{0, 0, 0}, Values{7, 7, 7, 7, 7, 7, 7, 7}, Values{1, 2},
                            Values{-3, 4, -5, 6, -7, 8, -9, 10, -3, 4, -5, 6}, Values{0, 0, 5, 0, 0, 0, 2, 0},
                            Values{1e12, 1e12 + 1, 1e12 + 5, 1e12, 1e12 + 2, 1e12 + 3}}) {
      for (const std::int64_t season : {1, 4, 12}) {
        const LocalForecast f = local_model(name)(x, season, 3);
        ASSERT_EQ(f.mean.size(), 3U);
        for (std::size_t h = 0; h < 3; ++h) {
          const auto [low, high] = f.interval(90, h);
          EXPECT_TRUE(std::isfinite(f.mean[h]) && std::isfinite(low) && std::isfinite(high))
              << name << " " << x.size() << " " << season;
          EXPECT_LE(low, high);
        }
      }
    }
  }
  EXPECT_EQ(seasonal_naive_forecast(Values{1, 2, 3, 4, 5, 6}, 4, 6).mean, (Values{3, 4, 5, 6, 3, 4}));
}

// Most rows are zero, and so is the low end of what a row may be.
TEST(Statistical, IntervalsOfSparseDemandHoldZeroAndWhatCame) {
  Values x(50);
  for (std::size_t i = 4; i < x.size(); i += 5) x[i] = 10;
  const LocalForecast f = sba_forecast(x, 1, 2);
  EXPECT_NEAR(f.mean[0], 0.95 * 10 / 5, 0.4);
  EXPECT_EQ(f.interval(90, 0), (std::pair{0.0, 10.0}));
  EXPECT_EQ(f.interval(50, 0), (std::pair{0.0, 0.0}));
  Values ends = x;
  ends.insert(ends.end(), 20, 0.0);
  EXPECT_LT(tsb_forecast(ends, 1, 1).mean[0], tsb_forecast(x, 1, 1).mean[0] / 2)
      << "while nothing comes it falls";
}

TEST(Statistical, AnUnknownModelIsNamed) { EXPECT_THROW(local_model("holt"), InvalidConfig); }

}  // namespace
}  // namespace ingot::forecast
