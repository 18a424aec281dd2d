#include "ingot/forecast/forecaster.h"

#include <cmath>
#include <limits>
#include <map>

#include "tests/forecast/support.h"
#include "tests/support/source_dir.h"

#include "ingot/base/files.h"
#include "ingot/base/report.h"
#include "ingot/base/rng.h"
#include "ingot/forecast/baselines.h"
#include "ingot/forecast/evaluate.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/plot.h"
#include "ingot/forecast/table/future_columns.h"

namespace ingot::forecast {
namespace {

// A long table of numbered rows.
std::string long_csv(const std::vector<std::pair<std::string, int>>& series, double wave) {
  std::string csv = "unique_id,ds,y\n";
  for (const auto& [id, rows] : series) {
    for (int i = 0; i < rows; ++i) csv += fmt::format("{},{},{}\n", id, i, 7 + wave * std::sin(i * 0.5));
  }
  return csv;
}

TEST(Forecaster, SavedAndLoadedItForecastsTheSame) {
  const test::TemporaryDirectory directory;
  const SeriesTable table = table_of(hourly_csv(700), {.targets = {"mirror"}});
  const Forecaster fitted = fit_forecaster(small_fit(), table);
  const std::string path = directory.at("model");
  save_forecaster(path, fitted);
  const Forecaster loaded = load_forecaster(path);
  EXPECT_EQ(loaded.column_names, (std::vector<std::string>{"mirror", "load"}));
  const SeriesForecast a = predict(fitted, table, {80})[0], b = predict(loaded, table, {80})[0];
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.times.front(), table.series[0].times.back() + 3600);
  EXPECT_EQ(a.values.size(), 1U);
  EXPECT_EQ(read_series(CsvTable::parse(hourly_csv(700), "f"), loaded.table_options()).column_names,
            loaded.column_names);
}

TEST(Forecaster, ReplacesAModelAndNothingElse) {
  const test::TemporaryDirectory directory;
  const Forecaster f = fit_forecaster(small_fit(), table_of(hourly_csv(700)));
  const std::string path = directory.at("model");
  save_forecaster(path, f);
  EXPECT_NO_THROW(save_forecaster(path, f));
  write_file_atomically(path + "/notes.txt", "mine");
  EXPECT_NE(message_of([&] { check_model_directory(path); }).find("holds 'notes.txt'"), std::string::npos);
  EXPECT_THROW(save_forecaster(path, f), IoError);
  EXPECT_EQ(read_file(path + "/notes.txt"), "mine");
  write_file_atomically(directory.at("data.csv"), "a");
  EXPECT_NE(message_of([&] { check_model_directory(directory.at("data.csv")); }).find("is a file"),
            std::string::npos);
  EXPECT_NO_THROW(check_model_directory(directory.at("new/model")));
  EXPECT_FALSE(std::filesystem::exists(directory.at("new/model")));
}

TEST(Forecaster, RefusesATableThatItWasNotFittedOn) {
  const Forecaster f = fit_forecaster(small_fit(), table_of(hourly_csv(700)));
  EXPECT_NE(message_of([&] {
              predict(f, table_of("date,a\n2020-01-01 00:00,1\n2020-01-01 01:00,2\n"));
            }).find("has the columns a, the model was fitted on load, mirror"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              predict(f, table_of(hourly_csv(40)));
            }).find("has 40 rows up to the forecast, the model reads 48"),
            std::string::npos);
  EXPECT_THROW(predict(f, table_of(hourly_csv(100)), {100}), InvalidConfig);
}

TEST(Forecaster, LeavesOutSeriesShorterThanItsLookBack) {
  const Forecaster f = fit_forecaster(small_fit(), table_of(long_csv({{"A", 200}}, 1)));
  const SeriesTable table = table_of(long_csv({{"B", 47}, {"A", 200}, {"C", 48}}, 1));
  const std::vector<SeriesForecast> forecasts = predict(f, table);
  ASSERT_EQ(forecasts.size(), 2U);
  EXPECT_EQ(forecasts[1].id, "C");
  EXPECT_EQ(ids_without_forecast(forecasts, table), std::vector<std::string>{"B"});
  const std::vector<LeftOut> left_out = series_not_continued(table, 48, 12);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].reason, "fewer rows than the 48 that the model reads");
  EXPECT_EQ(forecast_report(f, table, 12).charts.size(), 2U) << "A, and the training curve";
  EXPECT_NE(message_of([&] {
              predict(f, table_of(long_csv({{"B", 40}, {"C", 47}}, 1)));
            }).find("series 'C' has 47 rows up to the forecast, the model reads 48"),
            std::string::npos);
}

TEST(Forecaster, DoesNotOpenWithoutTheIntervalsThatItWasSavedWith) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.at("model");
  save_forecaster(path, fit_forecaster(small_fit(), table_of(hourly_csv(700))));
  std::filesystem::remove(path + "/calibration.safetensors");
  EXPECT_NE(message_of([&] { load_forecaster(path); }).find("calibration.safetensors"), std::string::npos);
}

TEST(Forecaster, OpensATransformersCheckpoint) {
  const Forecaster f =
      load_forecaster(test::source_dir() + "/tests/models/goldens/forecast/transformers_default");
  std::string csv = "ds,a,b,c,d\n";
  for (int i = 0; i < 40; ++i) csv += fmt::format("{},{},{},{},{}\n", i, i, 2 * i, std::sin(i), 5);
  const SeriesForecast forecast = predict(f, table_of(csv))[0];
  EXPECT_EQ(forecast.values.size(), 4U);
  EXPECT_EQ(forecast.times.size(), 7U);
  EXPECT_EQ(forecast.times.front(), 40);
  EXPECT_THROW(predict(f, table_of(csv), {90}), InvalidConfig);  // it is not calibrated
}

// The dates that a model fitted on `dates` writes after the last `rows` of them.
std::vector<std::string> dates_after(const std::vector<std::string>& dates, std::size_t rows) {
  const auto csv = [&](std::size_t first) {
    std::string text = "date,a\n";
    for (std::size_t i = first; i < dates.size(); ++i) text += fmt::format("{},{}\n", dates[i], i % 5);
    return CsvTable::parse(text, "data.csv");
  };
  FitConfig c = FitConfig::defaults("nlinear", 3);
  c.model.lookback = 4;
  c.epochs = 1;
  const Forecaster f = fit_forecaster(c, read_series(csv(0)));
  const SeriesTable table = read_series(csv(dates.size() - rows), f.table_options());
  const SeriesForecast forecast = predict(f, table)[0];
  std::vector<std::string> after;
  for (const Moment m : forecast.times) after.push_back(format_moment(m, table.date_style));
  return after;
}

TEST(Forecaster, ContinuesBusinessDaysAndMonthsAsTheTableHasThem) {
  std::vector<std::string> days, months;
  for (int i = 0; i < 100; ++i) {
    const Moment monday = *parse_moment("2020-01-06");
    days.push_back(format_moment(parse_frequency("B").advance(monday, i), {}));
    months.push_back(format_moment(parse_frequency("MS").advance(*parse_moment("2011-11-30"), i, 30), {}));
  }
  const std::vector<std::string> next_days{"2020-05-25", "2020-05-26", "2020-05-27"};
  ASSERT_EQ(days.back(), "2020-05-22");
  EXPECT_EQ(dates_after(days, 100), next_days);
  EXPECT_EQ(dates_after(days, 5), next_days);  // of one week, which shows no weekend
  ASSERT_EQ(months.back(), "2020-02-29");
  EXPECT_EQ(dates_after(months, 12), (std::vector<std::string>{"2020-03-30", "2020-04-30", "2020-05-30"}));
}

// Windows of a process whose errors do not change: an interval of level l must hold l per cent of them, give
// or take four standard deviations of the shares (windows overlap, so of fewer than all of them).
TEST(Calibration, IntervalsHoldTheirShareOfSimulatedData) {
  std::string csv = "ds,a\n";
  Rng rng(7);
  double level = 0;
  for (int i = 0; i < 12000; ++i) {
    level = 0.8 * level + rng.normal();
    csv += fmt::format("{},{:.5f}\n", i, level);
  }
  const SeriesTable table = table_of(csv);
  FitConfig c = FitConfig::defaults("nlinear", 4);
  c.model.lookback = 8;
  c.epochs = 3;
  c.split = {.train = 0.3, .test = 0.35};
  const Forecaster f = fit_forecaster(c, table);
  const Evaluation e = evaluate(f, table, {.levels = std::vector{50, 80, 90, 95}});
  for (const auto& [l, share] : e.methods[0].coverage) EXPECT_NEAR(share, l, 3.5) << l;
}

TEST(Calibration, RefusesLevelsThatItsErrorsDoNotTell) {
  // 80 rows leave 8 for validation: 5 windows of horizon 4, of which the largest error holds 5 of 6 to come.
  const SeriesTable table = table_of(hourly_csv(80));
  FitConfig c = FitConfig::defaults("nlinear", 4);
  c.model.lookback = 8;
  c.epochs = 1;
  const Forecaster f = fit_forecaster(c, table);
  ASSERT_EQ(f.calibration.windows, 5);
  EXPECT_EQ(f.calibration.highest_level(), 83);
  EXPECT_EQ(f.calibration.usual_levels(), std::vector{80});
  EXPECT_NE(f.calibration.missing_levels().find("90 %"), std::string::npos);
  EXPECT_NO_THROW(predict(f, table, {83}));
  EXPECT_NE(message_of([&] {
              predict(f, table, {84});
            }).find("level: is 84, but the model was calibrated on 5 windows"),
            std::string::npos);
  EXPECT_THROW(evaluate(f, table, {.levels = std::vector{90}}), InvalidConfig);
  const Evaluation e = evaluate(f, table);
  EXPECT_EQ(e.methods[0].coverage.size(), 1U);
  EXPECT_EQ(e.notes.size(), 1U);
  EXPECT_EQ(forecast_report(f, table, 0).charts[0].series.size(), 4U) << "a band of 80 %";
}

TEST(Calibration, TakesTheRankThatGuaranteesTheShare) {
  // 9 windows: level 90 is the ceil(10 * 0.9) = 9th smallest, level 50 the 5th.
  const SeriesTable table = table_of(hourly_csv(48 + 12 + 8));
  FitConfig c = completed(small_fit(), table);
  InitSource source(1);
  const auto model = make_forecast_model(c.model, source);
  const auto series = std::make_shared<const ScaledSeries>(
      scaled(table.series[0], fit_scales(ScalerKind::standard, table.series[0], 60, table), table.frequency));
  WindowSet windows(48, 12, 2);
  ASSERT_EQ(windows.add(series, 0, 68), 9);
  const Calibration q = calibrate(*model, windows);
  EXPECT_EQ(q.half_width(90, 0, 0), q.half_width(99, 0, 0));
  EXPECT_LT(q.half_width(50, 0, 0), q.half_width(90, 0, 0));
}

TEST(Baselines, RepeatTheLastValueOrTheLastSeason) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7};
  std::vector<double> out(5);
  naive(x)->forecast(7, out);
  EXPECT_EQ(out, (std::vector<double>{7, 7, 7, 7, 7}));
  seasonal_naive(x, 3)->forecast(6, out);
  EXPECT_EQ(out, (std::vector<double>{4, 5, 6, 4, 5}));
}

TEST(Baselines, EtsFindsTrendAndSeason) {
  std::vector<double> x;
  for (int i = 0; i < 300; ++i) x.push_back(5 + 2 * std::sin(i * 6.283185307 / 12) + 0.02 * i);
  EtsParameters chosen;
  const auto model = ets(x, 240, 12, &chosen);
  EXPECT_TRUE(chosen.seasonal);
  std::vector<double> out(24);
  model->forecast(270, out);
  for (std::size_t h = 0; h < out.size(); ++h) EXPECT_NEAR(out[h], x[270 + h], 0.5);
}

TEST(Baselines, SimplexFindsTheBottomOfAValley) {
  const auto rosenbrock = [](std::span<const double> p) {
    return 100 * std::pow(p[1] - p[0] * p[0], 2) + std::pow(1 - p[0], 2);
  };
  const std::vector<double> best = nelder_mead(rosenbrock, {-1.2, 1}, 0.5, 400);
  EXPECT_NEAR(best[0], 1, 1e-3);
  EXPECT_NEAR(best[1], 1, 2e-3);
}

// "Repeat last" of the closed-form program: 1.2944 and 0.7132.
TEST(Evaluate, CountsEveryWindowAndScoresTheNaiveForecastAsThePapersDo) {
  INGOT_REQUIRE_ETTH1();
  const SeriesTable table = read_series(etth1());
  FitConfig c = FitConfig::defaults("nlinear");
  c.split.kind = "ett";
  c.epochs = 1;
  const Forecaster f = fit_forecaster(c, table);
  const Evaluation e = evaluate(f, table);
  EXPECT_EQ(e.windows, 2785);
  EXPECT_EQ(e.season, 24);
  ASSERT_EQ(e.methods.size(), 4U);
  EXPECT_NEAR(e.methods[1].mse, 1.2944, 5e-5);
  EXPECT_NEAR(e.methods[1].mae, 0.7132, 5e-5);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LT(e.methods[0].mse, e.methods[i].mse) << e.methods[i].method;
}

// As in a table that ends with the last of them.
TEST(Evaluate, CountsOnlyTheFirstWindowsWhenTold) {
  const SeriesTable table = table_of(hourly_csv(700)), shorter = table_of(hourly_csv(690));
  const Forecaster f = fit_forecaster(small_fit(), table);
  const std::int64_t horizon = f.config.model.horizon;
  for (const std::int64_t stride : {1, 7}) {
    const Evaluation expected = evaluate(f, shorter, {.stride = stride, .levels = {}, .test_rows = 130});
    EXPECT_EQ(expected.windows, (130 - horizon) / stride + 1);
    const Evaluation e =
        evaluate(f, table, {.stride = stride, .levels = {}, .test_rows = 140, .windows = expected.windows});
    EXPECT_EQ(e.windows, expected.windows);
    for (std::size_t i = 0; i < e.methods.size(); ++i) {
      EXPECT_EQ(e.methods[i].mse, expected.methods[i].mse) << e.methods[i].method;
      EXPECT_EQ(e.methods[i].mae_by_step, expected.methods[i].mae_by_step) << e.methods[i].method;
    }
  }
  const auto windows = [&](std::int64_t n) {
    return evaluate(f, table, {.levels = {}, .windows = n}).windows;
  };
  EXPECT_EQ(windows(std::numeric_limits<std::int64_t>::max()), windows(0)) << "more than there are";
  EXPECT_THROW(windows(-1), InvalidConfig);
}

TEST(Evaluate, RefusesASeasonThatTheTrainingPartDoesNotHold) {
  const SeriesTable table = table_of(hourly_csv(700));
  const Forecaster f = fit_forecaster(small_fit(), table);
  EXPECT_NE(message_of([&] {
              evaluate(f, table, {.season = 489, .levels = {}});
            }).find("season: must be below the 489 rows of the training part, got 489"),
            std::string::npos);
  EXPECT_NE(message_of([&] { evaluate(f, table, {.season = -1, .levels = {}}); }).find("at least 0"),
            std::string::npos);
  EXPECT_EQ(evaluate(f, table, {.season = 12, .levels = {}}).season, 12);
}

// Weeks of two columns, of which the first repeats itself but for rounding.
SeriesTable weekly_days(int rows, const TableOptions& options = {}) {
  std::string csv = "ds,regular,noisy\n";
  for (int i = 0; i < rows; ++i) {
    csv += fmt::format("{},{},{:.4f}\n", format_moment(1577836800 + i * std::int64_t{86400}, {}),
                       std::sin(i * 6.283185307179586 / 7), std::sin(i * 12.9898) + 0.01 * i);
  }
  return table_of(csv, options);
}

TEST(Evaluate, MaseLeavesOutColumnsWhereItIsNotDefined) {
  const SeriesTable table = weekly_days(200);
  FitConfig c = small_fit();
  c.model.horizon = 4;
  c.model.lookback = 8;
  const Evaluation both = evaluate(fit_forecaster(c, table), table);
  ASSERT_EQ(both.notes.size(), 1U);
  EXPECT_NE(both.notes[0].find("leaves out: regular"), std::string::npos);
  const SeriesTable noisy = weekly_days(200, {.columns = {"noisy"}});
  EXPECT_DOUBLE_EQ(both.methods[1].mase, evaluate(fit_forecaster(c, noisy), noisy).methods[1].mase);
  const SeriesTable regular = weekly_days(200, {.columns = {"regular"}});
  const Evaluation none = evaluate(fit_forecaster(c, regular), regular);
  EXPECT_TRUE(std::isnan(none.methods[0].mase));
  EXPECT_EQ(metrics_table(none.methods).find("nan"), std::string::npos);
}

TEST(Evaluate, ASeasonThatTheTrainingPartDoesNotHoldBecomesOne) {
  std::string csv = "ds,a\n";
  for (int i = 0; i < 60; ++i) {
    csv +=
        fmt::format("{},{:.4f}\n", format_moment(1577836800 + i * std::int64_t{7 * 86400}, {}), std::sin(i));
  }
  const SeriesTable table = table_of(csv);
  FitConfig c = small_fit();
  c.model.horizon = 4;
  c.model.lookback = 8;
  const Evaluation e = evaluate(fit_forecaster(c, table), table);
  EXPECT_EQ(e.season, 1);
  EXPECT_GT(e.methods[1].mase, 0);
  EXPECT_EQ(e.methods[1].mae, e.methods[2].mae);
  ASSERT_FALSE(e.notes.empty());
  EXPECT_NE(e.notes.back().find("season of 52 rows is longer than the training part"), std::string::npos);
}

TEST(Evaluate, NamesTheSeriesWhoseTestPartHoldsNoWindow) {
  FitConfig c = small_fit();
  c.model.horizon = 4;
  c.model.lookback = 8;
  const Forecaster f = fit_forecaster(c, table_of(long_csv({{"A", 200}}, 1)));
  const Evaluation e = evaluate(f, table_of(long_csv({{"A", 200}, {"B", 15}}, 1)));
  EXPECT_EQ(e.skipped, std::vector<std::string>{"B"});
  EXPECT_NE(e.notes[0].find("Left out"), std::string::npos);
}

TEST(Forecaster, ContinuesANewSeriesThatIsConstant) {
  FitConfig c = small_fit("nlinear");
  c.model.horizon = 4;
  c.model.lookback = 8;
  const Forecaster f = fit_forecaster(c, table_of(long_csv({{"A", 200}}, 1)));
  const SeriesForecast forecast = predict(f, table_of(long_csv({{"B", 30}}, 0)))[0];
  for (const double value : forecast.values[0]) EXPECT_NEAR(value, 7, 1);
}

TEST(Forecaster, WritesItsReportWithTheModelOrNothing) {
  const test::TemporaryDirectory directory;
  const SeriesTable table = table_of(hourly_csv(700));
  const Forecaster f = fit_forecaster(small_fit(), table);
  Report report = forecast_report(f, table, 0);
  save_forecaster(directory.at("model"), f, &report);
  EXPECT_TRUE(std::filesystem::exists(directory.at("model/report.html")));
  report.charts[0].series[0].x.pop_back();  // cannot be drawn
  EXPECT_THROW(save_forecaster(directory.at("other"), f, &report), Error);
  EXPECT_FALSE(std::filesystem::exists(directory.at("other")));
}

TEST(Forecaster, KeepsWhatItWasFittedWithAndOnInItsDirectoryAndReports) {
  const test::TemporaryDirectory directory;
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig c = small_fit();
  c.device = "cpu";
  save_forecaster(directory.at("model"), fit_forecaster(c, table));
  const Forecaster loaded = load_forecaster(directory.at("model"), kCpu);
  const RunMetadata& metadata = loaded.metadata;
  EXPECT_EQ(metadata.to_json() + "\n", read_file(directory.at("model/run.json")));
  EXPECT_EQ(metadata.device, "cpu");
  EXPECT_EQ(metadata.seeds.size(), 1U);
  EXPECT_EQ(metadata.configuration_hash.size(), 64U);
  std::map<std::string, Setting> settings;
  for (const Setting& setting : metadata.configuration) settings[setting.name] = setting;
  EXPECT_TRUE(settings.at("model").given);
  EXPECT_TRUE(settings.at("lookback").given);
  EXPECT_FALSE(settings.at("schedule").given);
  EXPECT_FALSE(settings.at("channels").given) << "the table's";
  EXPECT_EQ(settings.at("cls_token").value, "false");
  ASSERT_EQ(metadata.data.size(), 1U);
  EXPECT_EQ(metadata.data[0].second, table_digest(table));
  EXPECT_EQ(forecast_report(loaded, table, 0).environment, metadata.rows());
  write_file_atomically(directory.at("model/run.json"), "{\"started\": 7");
  EXPECT_TRUE(load_forecaster(directory.at("model"), kCpu).metadata.version.empty());
  std::filesystem::remove(directory.at("model/run.json"));
  EXPECT_TRUE(load_forecaster(directory.at("model"), kCpu).metadata.version.empty());
}

TEST(Plot, SaysWhatItDoesNotDraw) {
  const SeriesTable table = table_of(hourly_csv(700));
  const Forecaster f = fit_forecaster(small_fit(), table);
  const Report report = forecast_report(f, table, 0, {.most_charts = 1});
  EXPECT_EQ(report.charts.size(), 2U);  // one column and the training curve
  EXPECT_EQ(report.figures[1].note, "700 rows; the first 1 are drawn");
  EXPECT_NE(message_of([&] { forecast_report(f, table, 653); }).find("hold_out: must be from 0 to 652"),
            std::string::npos);
}

TEST(Plot, ComparesInATableAndDrawsEveryMethod) {
  const SeriesTable table = table_of(hourly_csv(700));
  const Evaluation e = evaluate(fit_forecaster(small_fit(), table), table);
  std::vector<Compared> methods;
  for (const Metrics& m : e.methods) methods.push_back({.metrics = m});
  const Report report = comparison_report("data.csv", e.windows, methods);
  EXPECT_EQ(report.charts[0].series.size(), 4U);
  for (const ReportSeries& s : report.charts[0].series) EXPECT_EQ(s.y.size(), 12U) << s.name;
  ASSERT_EQ(report.tables.size(), 1U);
  EXPECT_EQ(report.tables[0].rows.size(), 4U);
  ASSERT_EQ(report.tables[0].best.size(), 1U);
  const double least = methods[report.tables[0].best[0]].metrics.mase;
  for (const Compared& method : methods) EXPECT_LE(least, method.metrics.mase);
  EXPECT_TRUE(report.config.empty());
}

TEST(Plot, DrawsActualForecastAndBand) {
  const SeriesTable table = table_of(hourly_csv(700));
  const Forecaster f = fit_forecaster(small_fit(), table);
  const Report report = forecast_report(f, table, 12);
  ASSERT_EQ(report.charts.size(), 3U);  // two columns and the training curve
  const ReportChart& chart = report.charts[0];
  EXPECT_TRUE(chart.dates);
  ASSERT_EQ(chart.series.size(), 4U);
  EXPECT_EQ(chart.series[0].x.back(), chart.series[1].x.back());  // what really came lies beside the forecast
  EXPECT_TRUE(chart.series[2].band);
  EXPECT_NO_THROW(render_report(report));
}

}  // namespace
}  // namespace ingot::forecast
