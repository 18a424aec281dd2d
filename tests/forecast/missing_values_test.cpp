#include <algorithm>
#include <cmath>
#include <ranges>

#include "tests/forecast/support.h"

#include "ingot/forecast/evaluate.h"
#include "ingot/forecast/plot.h"

namespace ingot::forecast {
namespace {

// The hours of hourly_csv without the values of `mirror` in rows [first, last).
SeriesTable hours_without(int first, int last, FillMethod fill) {
  std::string csv;
  int row = -1;  // the header
  for (const auto line : std::views::split(hourly_csv(700), '\n')) {
    const std::string text(line.begin(), line.end());
    csv += row >= first && row < last ? text.substr(0, text.rfind(',') + 1) : text;
    csv += "\n";
    ++row;
  }
  return table_of(csv, {.fill = fill});
}

// Rows 489 to 559 are the validation part, 560 to 699 the test part; small_fit reads 48 and forecasts 12.
constexpr FillMethod kFills[] = {FillMethod::interpolate, FillMethod::forward, FillMethod::mean};

TEST(MissingValues, AreNoTargetsOfTraining) {
  FitConfig c = small_fit();
  c.epochs = 1;
  std::vector<double> losses;
  for (const FillMethod fill : kFills) {
    losses.push_back(fit_forecaster(c, hours_without(480, 490, fill)).epochs[0].train_loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_NE(losses[0], fit_forecaster(c, hours_without(480, 490, FillMethod::zero)).epochs[0].train_loss)
      << "zero says what a missing value is";
}

TEST(MissingValues, TellNothingOfScales) {
  for (const FillMethod fill : kFills) {
    const SeriesTable table = table_of("date,a\n1,2\n2,\n3,\n4,6\n5,\n6,100\n", {.fill = fill});
    const ColumnScales scales = fit_scales(ScalerKind::standard, table.series[0], 5, table);
    EXPECT_EQ(scales.shift[0], 4) << "the mean of 2 and 6";
    EXPECT_EQ(scales.scale[0], 2);
  }
}

TEST(MissingValues, OfTheValidationPartChooseNoEpochAndGiveNoIntervals) {
  const FitConfig c = small_fit();
  const Forecaster whole = fit_forecaster(c, hours_without(0, 0, FillMethod::refuse));
  const Forecaster f = fit_forecaster(c, hours_without(550, 560, FillMethod::forward)),
                   g = fit_forecaster(c, hours_without(550, 560, FillMethod::mean));
  EXPECT_EQ(whole.calibration.windows, 60);
  EXPECT_EQ(f.calibration.windows, 50);
  ASSERT_EQ(f.epochs.size(), g.epochs.size());
  for (std::size_t i = 0; i < f.epochs.size(); ++i) {
    EXPECT_NEAR(f.epochs[i].validation_loss, g.epochs[i].validation_loss, 1e-9);
  }
  EXPECT_EQ(f.calibration.half_width(90, 0, 11), whole.calibration.half_width(90, 0, 11));
}

TEST(MissingValues, OfTheTestPartCountInNoError) {
  const Forecaster f = fit_forecaster(small_fit(), hours_without(0, 0, FillMethod::refuse));
  // The last rows are in no look-back, so only errors could tell what they were filled with.
  const Evaluation e = evaluate(f, hours_without(688, 700, kFills[0]));
  for (const FillMethod fill : kFills) {
    const Evaluation other = evaluate(f, hours_without(688, 700, fill));
    for (std::size_t m = 0; m < e.methods.size(); ++m) {
      EXPECT_EQ(e.methods[m].mse, other.methods[m].mse) << e.methods[m].method;
      EXPECT_EQ(e.methods[m].mase, other.methods[m].mase) << e.methods[m].method;
      EXPECT_EQ(e.methods[m].coverage, other.methods[m].coverage) << e.methods[m].method;
      EXPECT_EQ(e.methods[m].mae_by_step, other.methods[m].mae_by_step) << e.methods[m].method;
    }
  }
  EXPECT_EQ(e.windows, evaluate(f, hours_without(0, 0, FillMethod::refuse)).windows);
  ASSERT_EQ(e.notes.size(), 1U);
  EXPECT_NE(e.notes[0].find("12 values of the test part are missing"), std::string::npos) << e.notes[0];
}

TEST(MissingValues, AreGapsInPlots) {
  const SeriesTable table = hours_without(690, 695, FillMethod::interpolate);
  const Report report = forecast_report(fit_forecaster(small_fit(), table), table, 0);
  const auto gaps = [&](std::size_t chart) {
    return std::ranges::count_if(report.charts[chart].series[0].y, [](double y) { return std::isnan(y); });
  };
  EXPECT_EQ(gaps(0), 0);
  EXPECT_EQ(gaps(1), 5);
}

TEST(MissingValues, OfAWholePartAreErrorsThatNameIt) {
  SeriesTable partly = hours_without(0, 490, FillMethod::forward);
  const auto left_out = take_out_constant_columns(partly, {}, ScalerKind::standard);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].id, "mirror");
  EXPECT_EQ(partly.column_names, std::vector<std::string>{"load"});
  const SeriesTable only = table_of(hourly_csv(700), {.columns = {"load"}});
  const auto without = [&](int first, int last) {
    SeriesTable table = only;
    table.series[0].made_up = {std::vector<bool>(700)};
    std::fill(table.series[0].made_up[0].begin() + first, table.series[0].made_up[0].begin() + last, true);
    return table;
  };
  EXPECT_NE(message_of([&] {
              fit_forecaster(small_fit(), without(0, 490));
            }).find("column 'load': has no value in the 489 rows of the training part"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              fit_forecaster(small_fit(), without(489, 560));
            }).find("no value of what is to be forecast in its validation part"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              evaluate(fit_forecaster(small_fit(), only), without(560, 700));
            }).find("no value of what is forecast in its test part"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::forecast
