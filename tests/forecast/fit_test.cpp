#include "ingot/forecast/fit.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/forecast/support.h"

#include "ingot/base/config.h"
#include "ingot/forecast/cross_validate.h"
#include "ingot/forecast/evaluate.h"
#include "ingot/kernels/matmul_precision.h"
#include "ingot/ops/view.h"

namespace ingot::forecast {
namespace {

FitConfig small(const std::string& model) {
  FitConfig c = FitConfig::defaults(model, 12);
  c.model.lookback = 48;
  c.epochs = 3;
  c.min_epoch_steps = 1;
  if (model != "dlinear" && model != "nlinear") {
    c.model.d_model = 8;
    c.model.heads = 2;
    c.model.layers = 1;
    c.model.d_ff = 16;
    c.learning_rate = 1e-3;
  } else if (model == "timesnet") {
    c.model.d_model = c.model.d_ff = 8;
    c.model.layers = 1;
    c.model.kernels = 3;
    c.learning_rate = 1e-3;
  }
  return c;
}

// n - L - H + 1 windows; validation and test look back into the part before them.
TEST(Windows, AreAsManyAsThePublishedProtocolHas) {
  INGOT_REQUIRE_ETTH1();
  const SeriesTable table = read_series(etth1());
  for (const std::int64_t horizon : {96, 192, 336, 720}) {
    const DataSplit d = split_windows(table, {.kind = "ett"}, ScalerKind::standard, 336, horizon);
    EXPECT_EQ(d.train.size(), 8640 - 336 - horizon + 1);
    EXPECT_EQ(d.validation.size(), 2881 - horizon);
    EXPECT_EQ(d.test.size(), 2881 - horizon);
  }
}

TEST(Windows, ScalerStatisticsAreThoseOfTheTrainingPart) {
  INGOT_REQUIRE_ETTH1();
  const SeriesTable table = read_series(etth1());
  const DataSplit d = split_windows(table, {.kind = "ett"}, ScalerKind::standard, 336, 96);
  const std::vector<double> mean{7.937742, 2.021039, 5.079771, 0.746186, 2.781762, 0.788453, 17.128262};
  const std::vector<double> deviation{5.812749, 2.090105, 5.518794, 1.926379, 1.023523, 0.630237, 9.176491};
  for (std::size_t c = 0; c < 7; ++c) {
    EXPECT_NEAR(d.series[0]->scales.shift[c], mean[c], 5e-7);
    EXPECT_NEAR(d.series[0]->scales.scale[c], deviation[c], 5e-7);
  }
}

TEST(Windows, HoldTheRowsTheyName) {
  const SeriesTable table = table_of(hourly_csv(60));
  const auto series = std::make_shared<const ScaledSeries>(
      scaled(table.series[0], fit_scales(ScalerKind::none, table.series[0], 60, table), table.frequency));
  WindowSet windows(5, 3, 1);
  EXPECT_EQ(windows.add(series, 10, 30, 4), 4);  // 10, 14, 18, 22
  EXPECT_EQ(windows.add(series, 50, 57), 0);     // too short
  const Batch b = windows.batch(std::vector<std::int64_t>{3, 0});
  EXPECT_EQ(b.input.x.shape(), Shape({2, 2, 5}));
  EXPECT_EQ(b.target.shape(), Shape({2, 1, 3}));
  EXPECT_EQ(b.input.past_marks.shape(), Shape({2, 5, 4}));
  EXPECT_FLOAT_EQ(b.input.x.data<float>()[0], static_cast<float>(table.series[0].columns[0][22]));
  EXPECT_FLOAT_EQ(b.target.data<float>()[0], static_cast<float>(table.series[0].columns[0][27]));
  EXPECT_FLOAT_EQ(b.target.data<float>()[3], static_cast<float>(table.series[0].columns[0][15]));
}

TEST(Windows, SayWhatIsTooShortOrConstant) {
  const SeriesTable table = table_of(hourly_csv(100));
  const std::string message = message_of([&] { split_windows(table, {}, ScalerKind::standard, 48, 24); });
  EXPECT_NE(message.find("100 rows give 70 for training"), std::string::npos) << message;
  std::string flat = "ds,a\n";
  for (int i = 0; i < 100; ++i) flat += fmt::format("{},7\n", i);
  const SeriesTable constant = table_of(flat);
  EXPECT_NE(message_of([&] {
              split_windows(constant, {}, ScalerKind::standard, 5, 2);
            }).find("column 'a': is constant (7)"),
            std::string::npos);
  EXPECT_NO_THROW(split_windows(constant, {}, ScalerKind::none, 5, 2));
  EXPECT_THROW(split_windows(table, {.train = 0.9, .test = 0.2}, ScalerKind::standard, 5, 2), InvalidConfig);
}

// Least squares in closed form, over the same windows: train 0.32973, validation 0.65163, test 0.3702 and
// 0.3915.
TEST(Fit, DLinearReachesTheOptimumWithinThreeInAThousand) {
  INGOT_REQUIRE_ETTH1();
  const SeriesTable table = read_series(etth1());
  FitConfig c = FitConfig::defaults("dlinear");
  c.split.kind = "ett";
  const FitResult r = fit(c, table);
  const DataSplit d = split_windows(table, c.split, c.scaler, 336, 96);
  EXPECT_NEAR(mean_loss(*r.model, d.train, "mse") / 0.32973, 1, 0.003);
  EXPECT_NEAR(mean_loss(*r.model, d.test, "mse") / 0.3702, 1, 0.003);
}

TEST(Fit, EveryModelLearnsAndRepeatsItsBits) {
  const SeriesTable table = table_of(hourly_csv(700));
  for (const std::string& model : forecast_models()) {
    FitConfig c = small(model);
    const FitResult a = fit(c, table), b = fit(c, table);
    EXPECT_LT(a.epochs.back().train_loss, a.epochs.front().train_loss) << model;
    ASSERT_EQ(a.epochs.size(), b.epochs.size());
    for (std::size_t i = 0; i < a.epochs.size(); ++i) {
      EXPECT_EQ(a.epochs[i].validation_loss, b.epochs[i].validation_loss) << model;
    }
  }
}

TEST(Fit, KeepsTheBestEpochsWeights) {
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig c = small("nlinear");
  c.learning_rate = 0.5;  // too large: the loss goes up and down
  c.schedule = "constant";
  c.epochs = 6;
  const FitResult r = fit(c, table);
  const DataSplit d = split_windows(table, c.split, c.scaler, 48, 12);
  EXPECT_DOUBLE_EQ(mean_loss(*r.model, d.validation, "mse"), r.best_validation_loss);
  for (const EpochReport& e : r.epochs) EXPECT_LE(r.best_validation_loss, e.validation_loss);
}

TEST(Fit, KeepsTheLastEpochsWeightsWhenTold) {
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig c = small("dlinear");
  c.keep = "last";
  c.learning_rate = 0.5;
  c.schedule = "constant";
  c.epochs = 5;
  c.patience = 0;
  const FitResult r = fit(c, table);
  const DataSplit d = split_windows(table, c.split, c.scaler, 48, 12);
  EXPECT_DOUBLE_EQ(mean_loss(*r.model, d.validation, "mse"), r.epochs.back().validation_loss);
}

TEST(Fit, ValidatesAndKeepsTheAverageOfTheWeightsWhenTold) {
  const SeriesTable table = table_of(hourly_csv(700));
  for (const char* keep : {"best", "last"}) {
    FitConfig c = small("dlinear");
    c.keep = keep;
    c.patience = 0;
    const FitResult plain = fit(c, table);
    c.ema_decay = 0.9;
    const FitResult averaged = fit(c, table);
    // What is averaged does not change what is trained.
    EXPECT_EQ(averaged.epochs.back().train_loss, plain.epochs.back().train_loss) << keep;
    EXPECT_NE(averaged.epochs.back().validation_loss, plain.epochs.back().validation_loss) << keep;
    const DataSplit d = split_windows(table, c.split, c.scaler, 48, 12);
    const double kept = std::string_view(keep) == "best" ? averaged.best_validation_loss
                                                         : averaged.epochs.back().validation_loss;
    EXPECT_DOUBLE_EQ(mean_loss(*averaged.model, d.validation, "mse"), kept) << keep;
  }
}

TEST(Fit, AnEpochOfAShortTableTakesAsManyPassesAsMakeItsSteps) {
  const SeriesTable table = table_of(hourly_csv(700));  // 14 batches
  FitConfig c = small("nlinear");
  c.learning_rate = 1e-12;
  const double loss = fit(c, table).epochs[0].train_loss;
  const auto steps = [&](std::int64_t least) {
    c.min_epoch_steps = least;
    std::int64_t done = 0;
    FitHooks hooks;
    hooks.on_step = [&](std::int64_t step, std::int64_t all, double) {
      EXPECT_EQ(step, ++done);
      EXPECT_EQ(all, 3 * 14 * ((least + 13) / 14));
    };
    const FitResult r = fit(c, table, hooks);
    EXPECT_EQ(r.epochs.size(), 3U);
    EXPECT_NEAR(r.epochs[2].train_loss, loss, 1e-6)
        << "the mean over the windows, of weights that stand still";
    return done;
  };
  EXPECT_EQ(steps(14), 3 * 14);
  EXPECT_EQ(steps(15), 3 * 28);
  EXPECT_EQ(steps(42), 3 * 42);
}

// Twelve years of months, as those of airline passengers: rising, with a season that grows with them.
TEST(Fit, ModelsOfAShortTableBeatTheSeasonalNaiveForecastWithoutSettings) {
  std::string csv = "month,passengers\n";
  for (int i = 0; i < 144; ++i) {
    const double level = (110 + 2.6 * i) * (1 + 0.2 * std::sin(i * std::numbers::pi / 6));
    csv += fmt::format("{}-{:02},{:.1f}\n", 1949 + i / 12, i % 12 + 1, level + 7 * std::sin(i * 12.9898));
  }
  const SeriesTable table = table_of(csv);
  for (const char* model : {"dlinear", "nlinear", "itransformer"}) {
    FitConfig c = FitConfig::defaults(model, 6);
    c.model.lookback = 24;
    const Evaluation e = evaluate(fit_forecaster(c, table), table);
    const auto naive = std::ranges::find(e.methods, "seasonal naive", &Metrics::method);
    ASSERT_NE(naive, e.methods.end());
    EXPECT_LT(e.methods[0].mse, naive->mse / 2) << model;
  }
}

TEST(Fit, EndsEarlyAndWhenToldTo) {
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig c = small("dlinear");
  int asked = 0;
  FitHooks hooks{.on_step = {}, .on_epoch = [&](const EpochReport&) { return ++asked == 2; }};
  const FitResult stopped = fit(c, table, hooks);
  EXPECT_EQ(stopped.end, TrainEnd::stopped);
  EXPECT_EQ(stopped.epochs.size(), 2U);
  c.epochs = 200;
  c.learning_rate = 0.5;
  c.schedule = "constant";
  c.patience = 2;
  const FitResult early = fit(c, table);
  EXPECT_EQ(early.end, TrainEnd::stopped_early);
  EXPECT_EQ(early.epochs.back().epoch, early.best_epoch + 2);
  c.epochs = early.epochs.back().epoch;
  EXPECT_EQ(fit(c, table).end, TrainEnd::finished) << "it had all its epochs, though patience ends with them";
}

// Weights that no longer move give the same loss for ever: a tie is kept, but it is not a gain.
TEST(Fit, EndsEarlyWhereNothingMovesAnyMore) {
  FitConfig c = small("nlinear");
  c.epochs = 20;
  c.patience = 2;
  c.learning_rate = 1e-12;
  c.schedule = "constant";
  const FitResult r = fit(c, table_of(hourly_csv(700)));
  ASSERT_EQ(r.epochs.front().validation_loss, r.epochs.back().validation_loss);
  EXPECT_EQ(r.end, TrainEnd::stopped_early);
  EXPECT_EQ(r.epochs.size(), 3U);
  EXPECT_EQ(r.best_epoch, 3);
}

TEST(Fit, RefusesSizesThatTheTableContradicts) {
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig c = small("dlinear");
  c.model.channels = 5;
  EXPECT_NE(message_of([&] { fit(c, table); }).find("channels: is 5, but the table's columns"),
            std::string::npos);
  c = small("dlinear");
  c.model.time_features = 5;
  EXPECT_NE(message_of([&] { fit(c, table); }).find("time_features: is 5"), std::string::npos);
  c.model.time_features = 4;
  EXPECT_NO_THROW(check_fit(c, table));
}

TEST(Fit, ForecastsTargetsOnlyFromAllColumns) {
  const SeriesTable table = table_of(hourly_csv(700), {.targets = {"mirror"}});
  FitConfig c = small("itransformer");
  c.epochs = 1;
  const FitResult r = fit(c, table);
  EXPECT_EQ(r.config.model.channels, 2);
  EXPECT_EQ(split_windows(table, c.split, c.scaler, 48, 12).train.targets(), 1);
}

TEST(Fit, PutsThePrecisionOfMatmulsBackWhenItEnds) {
  FitConfig c = FitConfig::defaults("nlinear", 12);
  c.model.lookback = 48;
  c.epochs = 1;
  c.matmul_precision = "medium";
  const SeriesTable table = table_of(hourly_csv(500));
  const FitHooks hooks{.on_step = [](std::int64_t, std::int64_t, double) {
    EXPECT_EQ(kernels::matmul_precision(), kernels::MatmulPrecision::medium);
  }};
  fit(c, table, hooks);
  EXPECT_EQ(kernels::matmul_precision(), kernels::MatmulPrecision::highest);
  c.matmul_precision = "meduim";
  EXPECT_NE(message_of([&] { fit(c, table); }).find("did you mean 'medium'"), std::string::npos);
}

TEST(Fit, LeavesOutSeriesThatAreTooShortAndRefusesATableOfSuch) {
  const auto csv = [](int a, int b) {
    std::string text = "unique_id,ds,y\n";
    for (int i = 0; i < a; ++i) text += fmt::format("A,{},{:.4f}\n", i, std::sin(i));
    for (int i = 0; i < b; ++i) text += fmt::format("B,{},{:.4f}\n", i, std::cos(i));
    return table_of(text);
  };
  const FitConfig c = small_fit();
  const SeriesTable both = csv(200, 30);
  EXPECT_EQ(series_too_short(both, c.split, c.model.lookback, c.model.horizon),
            std::vector<std::string>{"B"});
  EXPECT_EQ(fit(c, both).epochs.back().validation_loss, fit(c, csv(200, 0)).epochs.back().validation_loss);
  EXPECT_NE(message_of([&] {
              fit(c, csv(20, 30));
            }).find("series 'B' is too short: its 30 rows give 21 for training"),
            std::string::npos);
  FitConfig reads_all = c;
  reads_all.model.lookback = 150;
  EXPECT_NE(message_of([&] {
              fit(reads_all, csv(200, 0));
            }).find("choose a shorter --lookback (42 leaves 87 windows to learn from; at most 128 fits)"),
            std::string::npos);
}

TEST(Fit, LeavesOutAConstantSeriesAndNamesIt) {
  const auto csv = [](bool with_constant) {
    std::string text = "unique_id,ds,y,price\n";
    for (int i = 0; i < 200; ++i) text += fmt::format("A,{},{:.4f},3\n", i, std::sin(i));
    for (int i = 0; with_constant && i < 200; ++i) text += fmt::format("C,{},7,{}\n", i, i);
    for (int i = 0; with_constant && i < 200; ++i) text += fmt::format("Z,{},0,{}\n", i, i);
    return table_of(text);
  };
  const FitConfig c = small_fit();
  const SeriesTable all = csv(true);
  std::vector<std::string> ids;
  for (const LeftOut& l : series_not_fitted(all, c.split, c.scaler, c.model.lookback, c.model.horizon)) {
    ids.push_back(l.id);
    EXPECT_EQ(l.reason, "it is constant in the training part, or has no value there");
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"C", "Z"}));
  const Forecaster f = fit_forecaster(c, all);
  EXPECT_EQ(f.epochs.back().validation_loss, fit(c, csv(false)).epochs.back().validation_loss);
  const auto forecasts = predict(f, all, {});
  ASSERT_EQ(forecasts.size(), 3U);
  EXPECT_NEAR(forecasts[1].values[0][0], 7, 1)
      << "a constant is continued, though nothing was learnt from it";
  const Evaluation e = evaluate(f, all);
  EXPECT_EQ(e.skipped, ids);
  EXPECT_NE(e.notes[0].find("constant before their test part: C, Z"), std::string::npos) << e.notes[0];
  EXPECT_EQ(cross_validate(c, all, {.folds = 2}).folds.size(), 2U);
}

TEST(Fit, TakesConstantColumnsOutOfAWideTable) {
  std::string csv = "ds,a,b,c\n";
  for (int i = 0; i < 100; ++i) csv += fmt::format("{},{},7,{}\n", i, i % 5, i % 3);
  SeriesTable table = table_of(csv, {.targets = {"a", "b"}});
  const auto left_out = take_out_constant_columns(table, {}, ScalerKind::standard);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].id, "b");
  EXPECT_EQ(table.column_names, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(table.targets, 1U);
  EXPECT_EQ(table.series[0].columns[1][1], 1);
  EXPECT_TRUE(take_out_constant_columns(table, {}, ScalerKind::standard).empty());
}

TEST(Windows, OfAShortTableReadAThirdOfTheTrainingRowsInWholeSeasons) {
  const auto lookback = [](const char* first, int rows, const char* frequency, std::int64_t horizon) {
    std::string csv = "date,a\n";
    for (int i = 0; i < rows; ++i) {
      const Moment moment = parse_frequency(frequency).advance(*parse_moment(first), i);
      csv += fmt::format("{},{}\n", format_moment(moment, {}), i);
    }
    return short_table_lookback(table_of(csv), {}, horizon);
  };
  EXPECT_EQ(lookback("1949-01-01", 144, "MS", 6), 24);  // 100 rows for training: 31, two years
  EXPECT_EQ(lookback("1949-01-01", 60, "MS", 3), 12);   // 42: 13, one year
  EXPECT_EQ(lookback("1949-01-01", 40, "MS", 2), 8);    // 28: 8, less than a year
  EXPECT_EQ(lookback("2020-01-01", 200, "D", 14), 42);  // 140: 42, six weeks
  EXPECT_EQ(lookback("1949-01-01", 144, "MS", 40), 0);  // 28 rows for testing
}

TEST(FitConfig, NamesTheKeyThatIsWrongAndKnowsTheDefaultsOfEachModel) {
  const auto error = [](const std::string& yaml) {
    return message_of([&] {
      Config config = Config::parse(yaml);
      read_fit_config(config);
    });
  };
  EXPECT_NE(error("{horizon: 0}").find("horizon"), std::string::npos);
  EXPECT_NE(error("{model: dliner}").find("did you mean 'dlinear'"), std::string::npos);
  EXPECT_NE(error("{matmul_precision: meduim}").find("did you mean 'medium'"), std::string::npos);
  EXPECT_NE(error("{min_epoch_steps: 0}").find("min_epoch_steps"), std::string::npos);
  EXPECT_NE(error("{min_epoch_steps: 9e15}").find("min_epoch_steps"), std::string::npos);
  EXPECT_NE(error("{lookbak: 3}").find("did you mean 'lookback'"), std::string::npos);
  EXPECT_NE(error("{fill: guess}").find("fill"), std::string::npos);
  Config config = Config::parse("{model: itransformer, horizon: 720}");
  EXPECT_EQ(read_fit_config(config).model.d_model, 512);
}

TEST(FitConfig, ReadsTheKeysOfTraining) {
  Config config = Config::parse(
      "{micro_batch_size: 3, num_epochs: 2, early_stopping_patience: 4, max_grad_norm: 0.5, train_seed: 7, "
      "lr_scheduler_type: cosine}");
  const FitConfig c = read_fit_config(config);
  EXPECT_EQ(c.batch_size, 3);
  EXPECT_EQ(c.epochs, 2);
  EXPECT_EQ(c.patience, 4);
  EXPECT_EQ(c.clip_grad_norm, 0.5);
  EXPECT_EQ(c.seed, 7U);
  EXPECT_EQ(c.schedule, "cosine");
}

}  // namespace
}  // namespace ingot::forecast
