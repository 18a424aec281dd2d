#include <algorithm>

#include "tests/forecast/support.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/input_effects.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/forecast/table/future_columns.h"
#include "ingot/models/forecast/future_effects.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/random.h"

namespace ingot::forecast {
namespace {

bool promoted(int day) { return (day * 7919) % 11 < 2; }

// Days with a week's wave and 10 more on days with a promotion, of which `ahead` more are known; beside them
// what nobody knows before.
std::string shop_csv(int rows, int ahead, double hidden = 0) {
  std::string csv = "date,sales,visitors,promo\n";
  for (int i = 0; i < rows + ahead; ++i) {
    const double noise = std::sin(i * 12.9898) * 43758.5453;
    const double sales = 50 + 4 * std::sin(i * 6.283185307 / 7) + (promoted(i) ? 10 : 0) +
                         0.5 * (noise - std::floor(noise) - 0.5);
    const std::string day = format_moment(1577836800 + i * 86400LL, DateStyle{});
    csv += i < rows ? fmt::format("{},{:.3f},{:.1f},{}\n", day, sales, 100 + noise / 1e4, promoted(i) ? 1 : 0)
                    : fmt::format("{},,{},{}\n", day, hidden, promoted(i) ? 1 : 0);
  }
  return csv;
}

TableOptions with_promotions_of(const char* target) { return {.targets = {target}, .future = {"promo"}}; }

TableOptions with_promotions() { return with_promotions_of("sales"); }

FitConfig shop_fit(const std::string& model = "nlinear") {
  FitConfig c = FitConfig::defaults(model, 7);
  c.model.lookback = 14;
  c.epochs = 3;
  c.min_epoch_steps = 20;
  return c;
}

double mean_error(const std::vector<double>& forecast, int first) {
  double sum = 0;
  for (std::size_t h = 0; h < forecast.size(); ++h) {
    const int day = first + static_cast<int>(h);
    const double actual = 50 + 4 * std::sin(day * 6.283185307 / 7) + (promoted(day) ? 10 : 0);
    sum += std::abs(forecast[h] - actual);
  }
  return sum / static_cast<double>(forecast.size());
}

TEST(FutureInputs, RowsBehindTheLastTargetGiveThemAndAreNotLeftOut) {
  const SeriesTable table = table_of(shop_csv(300, 9), with_promotions());
  EXPECT_EQ(table.column_names, (std::vector<std::string>{"sales", "visitors"}));
  EXPECT_EQ(table.future_names, std::vector<std::string>{"promo"});
  EXPECT_EQ(table.filled.rows_left_out, 0);
  ASSERT_EQ(table.series[0].length(), 300U);
  ASSERT_EQ(table.series[0].future[0].size(), 309U);
  EXPECT_EQ(table.series[0].future[0][305], promoted(305) ? 1 : 0);
  EXPECT_NE(message_of([] {
              table_of(shop_csv(300, 9), {.targets = {"sales"}, .future = {"sales"}});
            }).find("cannot be an input of --future"),
            std::string::npos);
}

TEST(FutureInputs, NetworksForecastWhatTheyBring) {
  const SeriesTable table = table_of(shop_csv(300, 7), with_promotions()),
                    without = table_of(shop_csv(300, 0), {.targets = {"sales"}, .columns = {"visitors"}});
  const Forecaster f = fit_forecaster(shop_fit(), table), g = fit_forecaster(shop_fit(), without);
  EXPECT_LT(evaluate(f, table, {}).methods[0].mae, 0.4 * evaluate(g, without, {}).methods[0].mae);
  EXPECT_LT(mean_error(predict(f, table)[0].values[0], 300), 1);
  EXPECT_NE(message_of([&] { predict(f, without); }).find("gives 0 inputs that are known ahead"),
            std::string::npos);
}

TEST(FutureInputs, NothingElseIsReadAhead) {
  const SeriesTable table = table_of(shop_csv(300, 7), with_promotions());
  const Forecaster f = fit_forecaster(shop_fit(), table);
  SeriesTable other = table;
  for (std::vector<double>& column : other.series[0].columns) {
    for (std::size_t row = 250; row < 300; ++row) column[row] = 1e4;
  }
  const auto at = [&](const SeriesTable& t) { return predict_at(f, t, t.series[0], 250, {}).values; };
  EXPECT_EQ(at(table), at(other));
  other.series[0].future[0][252] += 1;
  const auto changed = at(other)[0], before = at(table)[0];
  EXPECT_NEAR(changed[2] - before[2], 10, 1);
  EXPECT_EQ(changed[1], before[1]);
  // Nor by a fit: the effect is that of the training part.
  SeriesTable later = table;
  for (std::size_t row = 240; row < 300; ++row) later.series[0].future[0][row] = 5;
  FitConfig once = shop_fit();
  once.keep = "last";  // the validation part chooses nothing
  once.patience = 0;
  EXPECT_EQ(predict_at(fit_forecaster(once, table), table, table.series[0], 200, {}).values,
            predict_at(fit_forecaster(once, later), table, table.series[0], 200, {}).values);
}

TEST(FutureInputs, WhatTheyBringToOthersDoesNotMoveASeriesThatNeverChanged) {
  std::string csv = "unique_id,ds,y,promo\n";
  for (const char* id : {"A", "idle"}) {
    for (int i = 0; i < 127; ++i) {
      const std::string y = id[0] == 'i' ? "7" : fmt::format("{}", 50 + i % 7 + (promoted(i) ? 10 : 0));
      csv += fmt::format("{},{},{},{}\n", id, i, i < 120 ? y : "", promoted(i) ? 1 : 0);
    }
  }
  const SeriesTable table = table_of(csv, with_promotions_of("y"));
  const Forecaster f = fit_forecaster(shop_fit("dlinear"), table);
  const std::vector<SeriesForecast> forecasts = predict(f, table, {80});
  EXPECT_EQ(forecasts[1].values[0], std::vector<double>(7, 7));
  EXPECT_EQ(forecasts[1].high.at(80)[0], std::vector<double>(7, 7)) << "nothing tells how far it might move";
  const auto [low, high] = std::ranges::minmax_element(forecasts[0].values[0]);
  EXPECT_GT(*high - *low, 5) << "the other one moves";
}

TEST(FutureInputs, EveryNetworkTakesThem) {
  const NoGrad no_grad;
  for (const std::string& model : forecast_models()) {
    ForecastModelConfig c = ForecastModelConfig::defaults(model, 6);
    c.lookback = 24;
    c.channels = 2;
    c.d_model = c.d_ff = 8;
    c.heads = 2;
    c.layers = 1;
    c.future_inputs = 3;
    InitSource source(1);
    const auto network = make_forecast_model(c, source);
    auto& effects = dynamic_cast<FutureEffects&>(*network);
    Tensor x = Tensor::empty({1, 2, 24});
    normal_(x, 0, 1, {.seed = 2});
    const auto forecast = [&](float past, float future) {
      ForecastInput input;
      input.x = x;
      input.past_inputs = Tensor::from(std::vector<float>(24 * 3, past), {1, 24, 3});
      input.future_inputs = Tensor::from(std::vector<float>(6 * 3, future), {1, 6, 3});
      const Tensor y = contiguous((*network)(input));
      return std::vector<float>(y.data<float>(), y.data<float>() + y.numel());
    };
    const std::vector<float> plain = forecast(0, 0);
    EXPECT_EQ(plain, forecast(0, 1)) << model << ": no effect yet";
    effects.effect.replace(Tensor::from(std::vector<float>{1, 1, 1, 2, 2, 2}, {2, 3}));
    network->set_training(false);
    const std::vector<float> raised = forecast(0, 1);
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_NEAR(raised[i] - plain[i], i < 6 ? 3 : 6, 1e-4) << model << i;
  }
}

TEST(FutureInputs, StatisticalModelsForecastWhatTheyBring) {
  const SeriesTable table = table_of(shop_csv(120, 7), with_promotions());
  for (const std::string& model : local_models()) {
    if (model == "croston" || model == "sba" || model == "tsb") {
      EXPECT_THROW(fit_local({.model = model, .horizon = 7}, table, {}, {}), InvalidConfig) << model;
      continue;
    }
    const LocalForecaster f = fit_local({.model = model, .horizon = 7}, table, {}, {});
    const double most = model == "naive" ? 5 : 1.5;  // which knows no week
    EXPECT_LT(mean_error(predict_local(f, table)[0].values[0], 120), most) << model;
    const Evaluation e = evaluate_local(f, table, {.stride = 7});
    EXPECT_EQ(e.methods[1].method, model + " without inputs");
    EXPECT_LT(e.methods[0].mae, e.methods[1].mae) << model;
  }
}

TEST(FutureInputs, ThatAreNotKnownFarEnoughAreAnErrorThatNamesThem) {
  const SeriesTable table = table_of(shop_csv(300, 3), with_promotions());
  const LocalForecaster local = fit_local({.model = "theta", .horizon = 7}, table, {}, {});
  const Forecaster f = fit_forecaster(shop_fit(), table);
  for (const auto& message :
       {message_of([&] { predict(f, table); }), message_of([&] { predict_local(local, table); })}) {
    EXPECT_NE(message.find("column 'promo'"), std::string::npos) << message;
    EXPECT_NE(message.find("is known for 3 of the 7 rows ahead"), std::string::npos) << message;
  }
}

TEST(FutureInputs, ThatEndWithOneSeriesLeaveOutThatSeriesAlone) {
  std::string csv = "store,date,sales,promo\n";
  const auto rows = [&](const char* store, int known, int planned) {
    for (int i = 0; i < known + planned; ++i) {
      const std::string day = format_moment(1577836800 + i * 86400LL, DateStyle{});
      csv += fmt::format("{},{},{},{}\n", store, day, i < known ? fmt::format("{}", 50 + i % 7) : "",
                         promoted(i) ? 1 : 0);
    }
  };
  rows("closed", 90, 0);
  rows("open", 120, 7);
  const SeriesTable table = table_of(csv, with_promotions());
  const LocalForecaster local = fit_local({.model = "theta", .horizon = 7}, table, {}, {});
  const Forecaster f = fit_forecaster(shop_fit(), table);
  for (const auto& forecasts : {predict(f, table), predict_local(local, table)}) {
    ASSERT_EQ(forecasts.size(), 1U);
    EXPECT_EQ(forecasts[0].id, "open");
    EXPECT_EQ(ids_without_forecast(forecasts, table), std::vector<std::string>{"closed"});
  }
  const std::vector<LeftOut> left_out = series_not_continued(table, 1, 7);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].reason, "promo not known for 7 rows behind its last one");
}

TEST(FutureInputs, AreThoseOfTheFitOnceItIsSavedAndLoaded) {
  const test::TemporaryDirectory directory;
  const SeriesTable table = table_of(shop_csv(300, 7), with_promotions());
  FitConfig config = shop_fit();
  config.table = with_promotions();
  const Forecaster f = fit_forecaster(config, table);
  save_forecaster(directory.at("m"), f);
  const Forecaster loaded = load_forecaster(directory.at("m"));
  EXPECT_EQ(loaded.table_options().future, std::vector<std::string>{"promo"});
  const SeriesTable again = table_of(shop_csv(300, 7), loaded.table_options());
  EXPECT_EQ(predict(loaded, again)[0].values, predict(f, table)[0].values);
}

// Neither a trend nor a week's wave is taken for an effect.
TEST(InputEffects, AreFoundBesideTrendsAndSeasons) {
  std::vector<double> y, price, weekend;
  for (int i = 0; i < 140; ++i) {
    price.push_back(20 + (i / 10) % 3);
    weekend.push_back(i % 7 >= 5 ? 1 : 0);
    y.push_back(3 * i + 8 * std::sin(i * 6.283185307 / 7) - 2.5 * price.back());
  }
  EffectSums sums(2);
  sums.add(y, {price, weekend}, 7);
  const std::vector<double> effects = sums.solve();
  EXPECT_NEAR(effects[0], -2.5, 0.05);
  EXPECT_NEAR(effects[1], 0, 0.05);
}

// Seven columns of weekdays and one of ones say what six say: what they bring together is one, however it is
// shared out.
TEST(InputEffects, OfInputsThatFollowFromEachOtherAreTheSameTogether) {
  std::vector<double> y;
  std::vector<std::vector<double>> inputs(8);
  for (int i = 0; i < 134; ++i) {
    for (int day = 0; day < 7; ++day) inputs[static_cast<std::size_t>(day)].push_back(i % 7 == day ? 1 : 0);
    inputs[7].push_back(1);
    y.push_back(50 + (i % 7 == 5 ? 12 : 0) + 0.01 * ((i * 37) % 11));
  }
  const auto effect_of_saturday = [&](std::size_t first, std::size_t last) {
    std::vector<std::span<const double>> some(inputs.begin() + static_cast<std::ptrdiff_t>(first),
                                              inputs.begin() + static_cast<std::ptrdiff_t>(last));
    EffectSums sums(last - first);
    sums.add(y, some, 1);
    const std::vector<double> effects = sums.solve();
    for (const double effect : effects) EXPECT_TRUE(std::isfinite(effect));
    return effects[5 - first] - effects[4 - first];
  };
  EXPECT_NEAR(effect_of_saturday(0, 8), 12, 0.1);
  EXPECT_NEAR(effect_of_saturday(1, 7), 12, 0.1);
}

TEST(Holidays, AreCountedOverWhatARowStandsFor) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.at("h.csv"))
      << "date,country,name\n2020-01-01,DE,New Year\n2020-01-06,AT,Epiphany\n"
         "2020-12-25,DE,Christmas\n2020-12-26,DE,Boxing Day\n";
  const TableOptions options{.holidays = directory.at("h.csv")};
  const auto inputs = [&](const std::string& csv) { return table_of(csv, options); };
  const SeriesTable days =
      dated({"2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04", "2020-01-05"}, options);
  EXPECT_EQ(days.future_names, (std::vector<std::string>{"holiday_AT", "holiday_DE"}));
  EXPECT_EQ(days.series[0].future[1][0], 1);
  EXPECT_EQ(days.series[0].future[1][1], 0);
  EXPECT_EQ(days.series[0].future[0][5], 1) << "the day behind the last row";
  EXPECT_EQ(days.series[0].future[0].size(), 366U) << "to the end of the year";
  const SeriesTable months = inputs("date,a\n2020-01,1\n2020-02,2\n2020-03,3\n");
  EXPECT_EQ(months.series[0].future[1][0], 1);
  EXPECT_EQ(months.series[0].future[1][11], 2);
  const SeriesTable hours = inputs("date,a\n2020-01-01 22:00,1\n2020-01-01 23:00,2\n2020-01-02 00:00,3\n");
  EXPECT_EQ(hours.series[0].future[1][1], 1);
  EXPECT_EQ(hours.series[0].future[1][2], 0);
  EXPECT_NE(message_of([&] {
              inputs("date,a\n2019-12-30,1\n2019-12-31,2\n2020-01-01,3\n");
            }).find("tells of the years 2020 to 2020"),
            std::string::npos);
  EXPECT_NE(message_of([&] { inputs("ds,a\n1,1\n2,2\n3,3\n"); }).find("numbers its rows"), std::string::npos);
}

TEST(Refit, LearnsFromAllRowsAndKeepsIntervals) {
  const SeriesTable table = table_of(hourly_csv(700));
  FitConfig config = small_fit();
  const Forecaster f = fit_forecaster(config, table);
  config.refit = true;
  const Forecaster g = fit_forecaster(config, table);
  EXPECT_NE(predict(f, table)[0].values, predict(g, table)[0].values);
  EXPECT_EQ(f.calibration.half_width(90, 0, 3), g.calibration.half_width(90, 0, 3));
  EXPECT_NE(message_of([&] { evaluate(g, table, {}); }).find("was fitted to all rows"), std::string::npos);
  // The last rows count now.
  SeriesTable other = table;
  for (std::size_t row = 600; row < 700; ++row) other.series[0].columns[0][row] *= 3;
  const auto forecast = [&](const Forecaster& m) {
    return predict_at(m, table, table.series[0], 300, {}).values;
  };
  EXPECT_NE(forecast(fit_forecaster(config, other)), forecast(g));
  config.refit = false;
  EXPECT_EQ(forecast(fit_forecaster(config, other)), forecast(f));
}

TEST(Quantiles, AreEndsOfIntervals) {
  const SeriesTable table = table_of(hourly_csv(700));
  const Forecaster f = fit_forecaster(small_fit(), table);
  const auto quantiles = parse_quantiles("0.1,0.5,0.975", "--quantiles");
  const std::vector<int> levels = levels_to_predict(std::nullopt, quantiles, {80, 90});
  EXPECT_EQ(levels, (std::vector{0, 80, 95}));
  auto forecasts = predict(f, table, levels);
  const SeriesForecast whole = forecasts[0];
  take_quantiles(forecasts, quantiles, std::nullopt);
  EXPECT_TRUE(forecasts[0].low.empty());
  EXPECT_EQ(forecasts[0].quantiles.at(0.1), whole.low.at(80));
  EXPECT_EQ(forecasts[0].quantiles.at(0.5), whole.values);
  EXPECT_EQ(forecasts[0].quantiles.at(0.975), whole.high.at(95));
  EXPECT_TRUE(to_csv(forecasts, table).starts_with("date,load,load-q-0.1,load-q-0.5,load-q-0.975,mirror,"));
  EXPECT_NE(to_json(forecasts, table).find("\"quantiles\""), std::string::npos);
  for (const char* wrong : {"0", "1", "0.123", "x", "0.5,,0.9"}) {
    EXPECT_THROW(parse_quantiles(wrong, "--quantiles"), InvalidConfig) << wrong;
  }
}

TEST(SeriesTable, KnowsAStoreForTheIdOfItsSeries) {
  std::string csv = "date,store,sales\n", wide = "date,store,sales\n";
  for (int i = 0; i < 30; ++i) {
    for (const char* store : {"north", "south"})
      csv += fmt::format("{},{},{}\n", format_moment(1577836800 + i * 86400LL, DateStyle{}), store, i);
    wide += fmt::format("{},{},{}\n", format_moment(1577836800 + i * 86400LL, DateStyle{}), 4, i);
  }
  const SeriesTable table = table_of(csv);
  ASSERT_EQ(table.series.size(), 2U);
  EXPECT_EQ(table.series[1].id, "south");
  EXPECT_EQ(table.column_names, std::vector<std::string>{"sales"});
  EXPECT_NE(table.read_as.find("series by 'store'"), std::string::npos);
  EXPECT_EQ(table_of(wide).column_names.size(), 2U) << "a column of numbers where each date comes once";
  const TableOptions again = with_layout_of(table, {});
  EXPECT_EQ(again.layout, "long");
  EXPECT_EQ(again.id_column, "store");
}

}  // namespace
}  // namespace ingot::forecast
