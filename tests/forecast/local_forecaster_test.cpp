#include "ingot/forecast/statistical/local_forecaster.h"

#include <array>

#include "tests/forecast/support.h"

#include "ingot/base/report.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/plot.h"

namespace ingot::forecast {
namespace {

// Five years of months: a line and a season that grows with it.
SeriesTable months() {
  std::string csv = "date,sales\n";
  for (int i = 0; i < 60; ++i) {
    const double value =
        (100 + 2 * i) * (1 + 0.3 * std::sin(i * 6.283185307179586 / 12)) + (i * 37 % 11) * 0.3;
    csv += fmt::format("{}-{:02},{:.2f}\n", 2015 + i / 12, 1 + i % 12, value);
  }
  return table_of(csv);
}

LocalForecaster fitted(const std::string& model, const SeriesTable& table, std::int64_t horizon = 12) {
  return fit_local({.model = model, .horizon = horizon}, table, {}, {});
}

TEST(LocalForecaster, AutoTakesTheModelThatDidBestOnTheLastRows) {
  const SeriesTable table = months();
  const LocalForecaster f = fitted("auto", table);
  EXPECT_EQ(f.season, 12);
  ASSERT_EQ(f.scores.size(), 6U) << "models of sparse demand are not for this table";
  EXPECT_EQ(f.model, f.scores[0].model);
  EXPECT_NE(f.model, "naive");
  EXPECT_LT(f.scores[0].mase, f.scores[3].mase);
  std::string sparse = "ds,y\n";
  for (int i = 0; i < 60; ++i) sparse += fmt::format("{},{}\n", i, i % 7 == 0 ? 3 + i % 4 : 0);
  EXPECT_EQ(fitted("auto", table_of(sparse), 5).scores.size(), 9U);
}

TEST(LocalForecaster, PredictsEveryTargetWithIntervals) {
  const SeriesTable table = months();
  const auto forecasts = predict_local(fitted("ets", table), table, {90});
  ASSERT_EQ(forecasts.size(), 1U);
  EXPECT_EQ(format_moment(forecasts[0].times[0], table.date_style), "2020-01");
  EXPECT_NEAR(forecasts[0].values[0][3], (100 + 2 * 63) * 1.3, 8);
  EXPECT_LT(forecasts[0].low.at(90)[0][3], forecasts[0].values[0][3]);
  EXPECT_GT(forecasts[0].high.at(90)[0][3], forecasts[0].values[0][3]);
  EXPECT_THROW(predict_local(fitted("ets", table), table, {100}), InvalidConfig);
  EXPECT_THROW(predict_local(fitted("ets", table), table_of(hourly_csv(50)), {90}), DataError);
}

TEST(LocalForecaster, IsTheSameOnceSavedAndLoaded) {
  const test::TemporaryDirectory directory;
  const SeriesTable table = months();
  const LocalForecaster f = fit_local({.model = "auto", .horizon = 6, .season = 4}, table,
                                      {.date_format = "%Y-%m"}, {.train = 0.6, .test = 0.3});
  save_local_forecaster(directory.at("m"), f);
  EXPECT_TRUE(is_local_forecaster(directory.at("m")));
  EXPECT_FALSE(is_local_forecaster(directory.path()));
  const LocalForecaster loaded = load_local_forecaster(directory.at("m"));
  EXPECT_EQ(loaded.model, f.model);
  EXPECT_EQ(loaded.season, 4);
  EXPECT_EQ(loaded.table.date_format, "%Y-%m");
  EXPECT_EQ(loaded.split.test, 0.3);
  EXPECT_EQ(loaded.scores.size(), f.scores.size());
  EXPECT_EQ(predict_local(loaded, table)[0].values, predict_local(f, table)[0].values);
  EXPECT_EQ(loaded.metadata.to_json(), f.metadata.to_json());
  EXPECT_EQ(loaded.metadata.data[0].second, table_digest(table));
  EXPECT_EQ(local_report(loaded, table, 0).environment, f.metadata.rows());
}

TEST(LocalForecaster, ReadsANewTableAsItsOwnWasRead) {
  std::string csv = "day;y\n", next = "day;y\n";
  for (int month = 1; month <= 12; ++month) csv += fmt::format("15/{:02}/2020;1.{:03},50\n", month, month);
  for (int month = 1; month <= 6; ++month) next += fmt::format("01/{:02}/2021;1.{:03}\n", month, month);
  const test::TemporaryDirectory directory;
  save_local_forecaster(directory.at("m"), fitted("naive", table_of(csv), 2));
  const LocalForecaster loaded = load_local_forecaster(directory.at("m"));
  EXPECT_EQ(loaded.table.usual_order, DateOrder::day_first);
  EXPECT_EQ(loaded.table.usual_decimal, DecimalMark::comma);
  const SeriesTable table = table_of(next, loaded.table);
  EXPECT_EQ(table.frequency.name(), "MS");
  EXPECT_EQ(table.series[0].columns[0].back(), 1006);
}

TEST(LocalForecaster, EvaluationSaysWhenASimpleForecastIsBetter) {
  const SeriesTable table = months();
  const Evaluation good = evaluate_local(fitted("ets", table, 6), table, {.stride = 3});
  EXPECT_EQ(good.methods[0].method, "ets");
  EXPECT_EQ(good.methods.size(), 4U);
  EXPECT_LT(good.methods[0].mase, 0.5);
  EXPECT_TRUE(good.methods[0].coverage.contains(90));
  const Evaluation bad = evaluate_local(fitted("naive", table, 6), table, {.stride = 3});
  EXPECT_NE(bad.verdict.find("does better here than naive: MASE 0."), std::string::npos) << bad.verdict;
}

TEST(LocalForecaster, EvaluatesAsNetworksAre) {
  const SeriesTable table = months();
  FitConfig config = small_fit();
  config.model.lookback = 12;
  config.model.horizon = 3;
  config.epochs = 1;
  const Evaluation network = evaluate(fit_forecaster(config, table), table, {.stride = 2, .first_row = 50});
  const Evaluation local =
      evaluate_local(fitted("naive", table, 3), table, {.stride = 2, .first_row = 50}, {"seasonal_naive"});
  EXPECT_EQ(network.windows, local.windows);
  ASSERT_EQ(local.methods.size(), 2U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_NEAR(network.methods[i + 1].mase, local.methods[i].mase, 1e-9);
    EXPECT_NEAR(network.methods[i + 1].mse, local.methods[i].mse, 1e-9);
  }
}

TEST(LocalForecaster, PlotsJoinTheForecastToTheLastActualValue) {
  const SeriesTable table = months();
  const Report report = local_report(fitted("auto", table), table, 0);
  ASSERT_EQ(report.charts.size(), 1U);
  const auto& lines = report.charts[0].series;
  EXPECT_EQ(lines[1].name, "forecast");
  EXPECT_EQ(lines[1].x.size(), 13U);
  EXPECT_EQ(lines[1].y[0], lines[0].y.back());
  EXPECT_EQ(report.tables[0].rows.size(), 6U);
}

TEST(LocalForecaster, PlotsTellOfMonthsAndOfTheErrorOverTheLastRows) {
  const SeriesTable table = months();
  const Report report = local_report(fitted("ets", table), table, 0);
  const ReportChart& chart = report.charts[0];
  EXPECT_EQ(chart.date_unit, "month");
  EXPECT_EQ(chart.series[0].x.size(), 60U) << "five years of history";
  ASSERT_EQ(report.tables.size(), 1U);
  EXPECT_EQ(report.tables[0].title, "The last 12 rows, forecast from those before");
  ASSERT_EQ(report.tables[0].rows.size(), 3U) << "ETS, naive, seasonal naive";
  EXPECT_EQ(report.tables[0].best, std::vector<std::size_t>{0});
  EXPECT_EQ(report.figures.back().label, "hold-out error");
  EXPECT_EQ(report.figures.back().note, "MASE; the least of those compared");
  const Report worse = local_report(fitted("naive", table), table, 12);
  EXPECT_NE(worse.figures.back().note.find("ets has the least"), std::string::npos);
}

// Rows at the ends of quarters lie where the quarters' ticks are.
TEST(LocalForecaster, PlotsPutQuartersAtTheirBeginnings) {
  std::string csv = "date,a\n";
  for (int i = 0; i < 24; ++i) {
    constexpr std::array<const char*, 4> kEnds{"03-31", "06-30", "09-30", "12-31"};
    csv += fmt::format("{}-{},{}\n", 2015 + i / 4, kEnds[static_cast<std::size_t>(i % 4)], i % 4 + 0.1 * i);
  }
  const SeriesTable table = table_of(csv);
  const ReportChart chart = local_report(fitted("naive", table, 4), table, 0).charts[0];
  EXPECT_EQ(chart.date_unit, "quarter");
  EXPECT_EQ(chart.series[0].x[1], 1427846400) << "2015-04-01";
}

}  // namespace
}  // namespace ingot::forecast
