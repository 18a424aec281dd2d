#include "ingot/forecast/cross_validate.h"

#include "tests/forecast/support.h"

namespace ingot::forecast {
namespace {

FitConfig short_fit() {
  FitConfig c = FitConfig::defaults("nlinear", 6);
  c.model.lookback = 12;
  c.epochs = 2;
  return c;
}

void expect_same(const Fold& a, const Fold& b) {
  EXPECT_EQ(a.origin, b.origin);
  for (std::size_t m = 0; m < a.evaluation.methods.size(); ++m) {
    EXPECT_EQ(a.evaluation.methods[m].mse, b.evaluation.methods[m].mse) << a.evaluation.methods[m].method;
    EXPECT_EQ(a.evaluation.methods[m].mase, b.evaluation.methods[m].mase) << a.evaluation.methods[m].method;
    EXPECT_EQ(a.evaluation.methods[m].coverage, b.evaluation.methods[m].coverage);
  }
}

TEST(CrossValidate, TheWindowExpandsAndTheFoldsTileTheLastRows) {
  const SeriesTable table = table_of(hourly_csv(300));
  const CrossValidation v = cross_validate(short_fit(), table, {.folds = 3, .test_rows = 10});
  ASSERT_EQ(v.folds.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Fold& fold = v.folds[i];
    EXPECT_EQ(fold.rows, 270 + 10 * static_cast<std::int64_t>(i));
    EXPECT_EQ(fold.origin, table.series[0].times[static_cast<std::size_t>(fold.rows)]);
    EXPECT_EQ(fold.evaluation.windows, 5);  // 10 rows hold 5 forecasts of 6
    EXPECT_EQ(fold.epochs, 2);
  }
  ASSERT_EQ(v.mean.size(), 4U);
  double mae = 0;
  for (const Fold& fold : v.folds) mae += fold.evaluation.methods[2].mae / 3;
  EXPECT_NEAR(v.mean[2].mae, mae, 1e-12);
}

TEST(CrossValidate, NoFoldSeesARowAfterItsOwn) {
  SeriesTable table = table_of(hourly_csv(300));
  const CrossValidationOptions options{.folds = 3, .test_rows = 12};
  const CrossValidation before = cross_validate(short_fit(), table, options);
  for (std::vector<double>& column : table.series[0].columns) {
    for (std::size_t row = 300 - 24; row < 300; ++row) column[row] = 1000 + static_cast<double>(row % 5);
  }
  const CrossValidation after = cross_validate(short_fit(), table, options);
  expect_same(before.folds[0], after.folds[0]);
  EXPECT_NE(before.folds[1].evaluation.methods[0].mse, after.folds[1].evaluation.methods[0].mse);
}

TEST(CrossValidate, AFoldIsTheFitAndTheEvaluationThatItSaysItIs) {
  const SeriesTable table = table_of(hourly_csv(300)), before = table_of(hourly_csv(294));
  const CrossValidation v = cross_validate(short_fit(), table, {.folds = 1});
  FitConfig c = short_fit();
  c.split = {.train = 0.7 / 0.8, .test = 0};
  const Evaluation e = evaluate(fit_forecaster(c, before), table, {.test_rows = 6});
  EXPECT_EQ(v.folds[0].evaluation.methods[0].mse, e.methods[0].mse);
  EXPECT_EQ(e.windows, 1);
}

TEST(CrossValidate, ReturnsTheFoldsBeforeTheOneThatWasStopped) {
  const SeriesTable table = table_of(hourly_csv(300));
  const FoldFit fit = [](std::int64_t fold, const FitConfig& config, const SeriesTable& before) {
    const FitHooks hooks{.on_step = {}, .on_epoch = [&](const EpochReport&) { return fold == 1; }};
    return fit_forecaster(config, before, hooks);
  };
  const CrossValidation v = cross_validate(short_fit(), table, {.folds = 3}, fit);
  EXPECT_TRUE(v.stopped);
  EXPECT_EQ(v.folds.size(), 1U);
  EXPECT_EQ(v.mean[0].mse, v.folds[0].evaluation.methods[0].mse);
}

TEST(CrossValidate, SaysWhereFoldsAndRowsDoNotFitTogether) {
  const SeriesTable table = table_of(hourly_csv(100));
  const auto error = [&](const CrossValidationOptions& options) {
    return message_of([&] { cross_validate(short_fit(), table, options); });
  };
  EXPECT_NE(error({.folds = 0}).find("folds: must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(error({.test_rows = 5}).find("fold_rows: must be at least the horizon of 6"), std::string::npos);
  EXPECT_NE(error({.folds = 20}).find("20 folds of 6 rows leave none of the 100 rows"), std::string::npos);
  EXPECT_NE(error({.folds = 14}).find("data.csv before fold 1 of 14"), std::string::npos)
      << error({.folds = 14});
}

}  // namespace
}  // namespace ingot::forecast
