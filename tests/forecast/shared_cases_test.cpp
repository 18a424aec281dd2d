#include "tests/forecast/support.h"

#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/windows.h"

// Tables as people have them, of the shared cases: dates and numbers are what the files' names say.
namespace ingot::forecast {
namespace {

struct Case {
  const char* name;
  std::size_t rows, columns;
  const char *first, *last, *next;  // next: as a forecast writes it
  double first_value, last_value;
  const char* frequency;
};

class SharedTable : public ::testing::TestWithParam<Case> {};

TEST_P(SharedTable, HasTheDatesAndNumbersThatItsNameSays) {
  const Case& c = GetParam();
  const std::filesystem::path path = std::filesystem::path(test::source_dir()) / "../shared/cases/misc" /
                                     fmt::format("fc-{}/{}.csv", c.name, c.name);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const SeriesTable table = read_series(path.string());
  const Series& series = table.series.back();
  EXPECT_EQ(series.length(), c.rows);
  EXPECT_EQ(table.column_names.size(), c.columns);
  const DateStyle iso{.clock = " %H:%M"};
  EXPECT_EQ(format_moment(series.times.front(), iso), c.first);
  EXPECT_EQ(format_moment(series.times.back(), iso), c.last);
  const Moment next = table.frequency.advance(series.times.back(), 1, series.month_day);
  EXPECT_EQ(format_moment(next, table.date_style), c.next);
  EXPECT_DOUBLE_EQ(series.columns[0].front(), c.first_value);
  EXPECT_DOUBLE_EQ(series.columns[0].back(), c.last_value);
  EXPECT_EQ(table.frequency, parse_frequency(c.frequency));
}

// dst_autumn_naive counts by the clock of its last row.
INSTANTIATE_TEST_SUITE_P(
    Misc, SharedTable,
    ::testing::Values(
        Case{"airquality", 600, 3, "2020-01-01 00:00", "2020-01-25 23:00", "26/01/2020 00.00.00", 2.0, 2.2,
             "h"},
        Case{"blank_end", 400, 1, "2020-01-01 00:00", "2021-02-03 00:00", "2021-02-04", 100, 107.2, "D"},
        Case{"dmy_slash", 400, 1, "2020-01-01 00:00", "2021-02-03 00:00", "04/02/2021", 100, 107.2, "D"},
        Case{"dst_autumn_naive", 1200, 1, "2021-09-14 23:00", "2021-11-03 22:00", "2021-11-03 23:00", 100.36,
             120.26, "h"},
        Case{"epoch_s", 600, 1, "2020-01-01 00:00", "2020-01-25 23:00", "1579996800", 100.18, 108.57, "h"},
        Case{"iso_week", 260, 1, "2014-12-29 00:00", "2019-12-16 00:00", "2019-W52", 100.58, 104.54, "W"},
        Case{"thousands", 400, 1, "2020-01-01 00:00", "2021-02-03 00:00", "2021-02-04", 100000, 107200, "D"},
        Case{"tz_name", 600, 1, "2020-01-01 00:00", "2020-01-25 23:00", "2020-01-26 00:00 UTC", 100.18,
             108.57, "h"},
        Case{"us_ampm", 400, 1, "2020-01-01 00:00", "2020-01-17 15:00", "2020-01-17 04:00:00 PM", 100, 107.2,
             "h"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SharedTables, OneOddSeriesIsLeftOutAndNamedAndTheOthersAreFitted) {
  const std::filesystem::path cases = std::filesystem::path(test::source_dir()) / "../shared/cases/misc";
  const auto fitted = [&](const std::string& name, const std::string& odd, std::size_t others) {
    const std::filesystem::path path = cases / fmt::format("fc-{}/{}.csv", name, name);
    if (!std::filesystem::exists(path)) return false;
    const SeriesTable table = read_series(path.string());
    FitConfig config = small_fit();
    config.epochs = 1;
    const Forecaster f = fit_forecaster(config, table);
    EXPECT_EQ(f.scales.size(), others) << name;
    EXPECT_FALSE(f.scales.contains(odd)) << name;
    std::vector<LeftOut> out =
        series_not_fitted(table, config.split, config.scaler, config.model.lookback, config.model.horizon);
    out.insert(out.end(), table.left_out.begin(), table.left_out.end());
    EXPECT_EQ(out.size(), 1U) << name;
    if (!out.empty()) EXPECT_EQ(out[0].id, odd);
    return true;
  };
  if (!fitted("long_const", "C", 2) || !fitted("long_single", "S", 2)) GTEST_SKIP() << cases << " is absent";
}

}  // namespace
}  // namespace ingot::forecast
