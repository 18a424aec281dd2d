#include "ingot/forecast/forecast_text.h"

#include <cmath>

#include "tests/forecast/support.h"
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::forecast {
namespace {

Forecaster small_forecaster(const SeriesTable& table) {
  FitConfig c = FitConfig::defaults("nlinear", 3);
  c.model.lookback = 12;
  c.epochs = 1;
  return fit_forecaster(c, table);
}

SeriesTable long_table() {
  std::string csv = "shop,ds,y\n";
  for (const char* id : {"A", "B,1"}) {
    for (int i = 0; i < 200; ++i) csv += fmt::format("\"{}\",{},{}\n", id, i, std::sin(i * 0.5) + i * 0.001);
  }
  return table_of(csv, {.layout = "long", .id_column = "shop"});
}

SeriesTable table_of_column(const std::string& header, double shift) {
  std::string csv = fmt::format("ds,{}\n", header);
  for (int i = 0; i < 200; ++i) csv += fmt::format("{},{}\n", i, shift + std::sin(i * 0.5));
  return table_of(csv);
}

TEST(ForecastText, WritesLongTablesAsLongTables) {
  const SeriesTable table = long_table();
  const std::string out = to_csv(predict(small_forecaster(table), table, {90}), table);
  EXPECT_TRUE(out.starts_with("shop,ds,y,y-lo-90,y-hi-90\nA,200,")) << out;
  EXPECT_NE(out.find("\n\"B,1\",202,"), std::string::npos) << out;
  EXPECT_EQ(CsvTable::parse(out, "out").rows(), 6U);
}

TEST(ForecastText, IdsOfTwoColumnsStandInTwoColumns) {
  std::string csv = "date,store,item,y\n";
  for (const char* item : {"milk", "\"a, b\""})
    for (int day = 1; day <= 3; ++day) csv += fmt::format("2020-01-0{},7,{},{}\n", day, item, day);
  const SeriesTable table = table_of(csv, {.id_column = "store,item"});
  std::vector<SeriesForecast> forecasts;
  for (const Series& series : table.series)
    forecasts.push_back(
        {.id = series.id, .times = {series.times[0]}, .values = {{5}}, .low = {}, .high = {}});
  EXPECT_EQ(to_csv(forecasts, table), "store,item,date,y\n7,milk,2020-01-01,5\n7,\"a, b\",2020-01-01,5\n");
}

TEST(ForecastText, QuotesTheWholeNameOfAnInterval) {
  const SeriesTable table = table_of_column("\"a, \"\"net\"\"\"", 0);
  const std::string out = to_csv(predict(small_forecaster(table), table, {80}), table);
  EXPECT_EQ(CsvTable::parse(out, "out").header(),
            (std::vector<std::string>{"ds", "a, \"net\"", "a, \"net\"-lo-80", "a, \"net\"-hi-80"}));
}

TEST(ForecastText, KeepsEveryDigitOfLargeValues) {
  const SeriesTable table = table_of_column("a", 1e9);
  const std::vector<SeriesForecast> forecasts = predict(small_forecaster(table), table, {80});
  const CsvTable csv = CsvTable::parse(to_csv(forecasts, table), "out");
  for (std::size_t h = 0; h < 3; ++h) {
    EXPECT_EQ(std::stod(std::string(csv.cell(h, 1))), forecasts[0].values[0][h]);
    EXPECT_EQ(std::stod(std::string(csv.cell(h, 2))), forecasts[0].low.at(80)[0][h]);
  }
  EXPECT_NE(csv.cell(0, 1), csv.cell(0, 2));
}

TEST(ForecastText, TheJsonHoldsWhatTheCsvHolds) {
  const SeriesTable table = long_table();
  const std::vector<SeriesForecast> forecasts = predict(small_forecaster(table), table, {80, 90});
  const auto document = parse_json<nlohmann::json>(to_json(forecasts, table), "forecast");
  EXPECT_EQ(document["horizon"], forecasts[0].times.size());
  const auto& json = document["series"];
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["id"], "B,1");
  EXPECT_EQ(json[1]["times"][0], "200");
  EXPECT_EQ(json[1]["targets"]["y"]["forecast"][2].get<double>(), forecasts[1].values[0][2]);
  EXPECT_EQ(json[1]["targets"]["y"]["90"]["high"][0].get<double>(), forecasts[1].high.at(90)[0][0]);
}

}  // namespace
}  // namespace ingot::forecast
