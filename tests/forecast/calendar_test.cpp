#include "ingot/forecast/calendar.h"

#include "tests/forecast/support.h"

namespace ingot::forecast {
namespace {

using Strings = std::vector<std::string>;

// The dates of rows `from` to the end, and of `more` rows after them, as they are written.
Strings written(const SeriesTable& table, std::size_t from, std::int64_t more) {
  const std::vector<Moment>& times = table.series[0].times;
  Strings dates;
  for (std::size_t i = from; i < times.size(); ++i) {
    dates.push_back(format_moment(times[i], table.date_style));
  }
  for (std::int64_t i = 1; i <= more; ++i) {
    dates.push_back(format_moment(table.frequency.advance(times.back(), i), table.date_style));
  }
  return dates;
}

// A table of these dates with one column of numbers.
SeriesTable dated(const Strings& dates, const TableOptions& options = {}) {
  std::string csv = "date,a\n";
  for (std::size_t i = 0; i < dates.size(); ++i) csv += fmt::format("{},{}\n", dates[i], i);
  return table_of(csv, options);
}

TEST(Calendar, ReadsTheUsualWaysToWriteADate) {
  const Moment noon = 1467374400;  // 2016-07-01 12:00 UTC
  for (const char* text : {"2016-07-01 12:00:00", "2016-07-01T12:00", "2016/07/01 12:00",
                           "2016-07-01T12:00:00Z", "2016-07-01 14:00:00+02:00", "2016-07-01 12:00:00.000"}) {
    EXPECT_EQ(parse_moment(text), noon) << text;
  }
  EXPECT_EQ(parse_moment("2016-07"), noon - 43200);
  EXPECT_EQ(parse_moment("17"), 17);
  for (const char* text :
       {"", "yesterday", "2016-13-01", "2015-02-29", "2016-07-01 25:00", "01.07.2016", "2016-07-01x"}) {
    EXPECT_EQ(parse_moment(text), std::nullopt) << text;
  }
}

TEST(Calendar, WritesADateAsItWasRead) {
  for (const char* text : {"2016-07-01 12:00:00", "2016-07-01T12:00", "2016/07/01", "2016-07",
                           "1969-12-31 23:00:00", "42", "20160701 12:00", "2016-07-01T12:00Z"}) {
    DateStyle style;
    const auto moment = parse_moment(text, &style);
    ASSERT_TRUE(moment) << text;
    EXPECT_EQ(format_moment(*moment, style), text);
  }
}

TEST(Calendar, TakesNumbersForDatesOnlyWhereAsked) {
  EXPECT_EQ(parse_moment("20160229"), 20160229);
  DateStyle style;
  EXPECT_EQ(parse_compact_date("20160229", &style), parse_moment("2016-02-29"));
  EXPECT_EQ(format_moment(*parse_moment("2016-03-01"), style), "20160301");
  EXPECT_EQ(parse_compact_date("201602", &style), parse_moment("2016-02"));
  EXPECT_EQ(format_moment(*parse_moment("2016-03-01"), style), "201603");
  for (const char* text : {"20150229", "17991231", "22000101", "2016-7-1", "2016", "201613", "2016070"}) {
    EXPECT_EQ(parse_compact_date(text), std::nullopt) << text;
  }
}

TEST(Calendar, InfersFrequenciesThroughGaps) {
  const auto inferred = [](std::initializer_list<const char*> dates) {
    std::vector<Moment> moments;
    for (const char* d : dates) moments.push_back(*parse_moment(d));
    const auto f = infer_frequency(moments, false, nullptr);
    return f ? f->name() : "none";
  };
  EXPECT_EQ(inferred({"2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00", "2020-01-01 05:00"}), "h");
  EXPECT_EQ(inferred({"2020-01-01", "2020-02-01", "2020-03-01", "2020-05-01"}), "MS");
  EXPECT_EQ(inferred({"2020-01-31", "2020-02-29", "2020-03-31"}), "MS");
  EXPECT_EQ(inferred({"2020-01-01", "2020-04-01", "2020-07-01"}), "QS");
  EXPECT_EQ(inferred({"2020-01-06", "2020-01-13", "2020-01-20"}), "W");
  EXPECT_EQ(inferred({"2020-01-01", "2020-01-02", "2020-01-03 07:00"}), "none");
  EXPECT_EQ(parse_frequency("15min").season(), 96);
  EXPECT_EQ(parse_frequency("MS").advance(*parse_moment("2020-01-31"), 1), *parse_moment("2020-02-29"));
  EXPECT_THROW(parse_frequency("fortnight"), InvalidConfig);
}

// Values of pandas' and GluonTS' time features for this hour, a Friday.
TEST(Calendar, FeaturesAreThoseOfThePublishedCode) {
  EXPECT_EQ(time_feature_names(parse_frequency("h")),
            (Strings{"hour_of_day", "day_of_week", "day_of_month", "day_of_year"}));
  std::vector<float> f(4);
  time_features(*parse_moment("2016-07-01 12:00"), parse_frequency("h"), f);
  EXPECT_FLOAT_EQ(f[0], 12 / 23.0F - 0.5F);
  EXPECT_FLOAT_EQ(f[1], 4 / 6.0F - 0.5F);
  EXPECT_FLOAT_EQ(f[2], -0.5F);
  EXPECT_NEAR(f[3], 182 / 365.0 - 0.5, 1e-7);
}

TEST(DateColumn, ShowsTheTimeThatAnyRowHas) {
  // As R writes hours: midnights without a time.
  EXPECT_EQ(written(dated({"2020-01-01", "2020-01-01 01:00:00", "2020-01-01 02:00:00"}), 2, 2),
            (Strings{"2020-01-01 02:00:00", "2020-01-01 03:00:00", "2020-01-01 04:00:00"}));
  // And as it is when only midnights are there.
  EXPECT_EQ(written(dated({"2020-01-01", "2020-01-02"}, {.frequency = "12h"}), 2, 2),
            (Strings{"2020-01-02 00:00", "2020-01-02 12:00", "2020-01-03 00:00"}));
}

TEST(DateColumn, ReadsDatesWithoutDashes) {
  const SeriesTable days = dated({"20200130", "20200131", "20200201"});
  EXPECT_EQ(days.frequency.name(), "D");
  EXPECT_EQ(written(days, 2, 1), (Strings{"20200201", "20200202"}));
  const SeriesTable months = dated({"202011", "202012", "202101"});
  EXPECT_EQ(months.frequency.name(), "MS");
  EXPECT_EQ(written(months, 2, 1), (Strings{"202101", "202102"}));
  EXPECT_EQ(dated({"20200130", "20200131", "20200132"}).frequency.name(), "1 row");
}

TEST(DateColumn, RefusesDatesWithAndWithoutAZone) {
  EXPECT_EQ(
      message_of([] {
        dated({"2020-01-01 00:00Z", "2020-01-01 01:00Z", "2020-01-01 02:00"});
      }),
      "data.csv, line 4, column 'date': '2020-01-01 02:00' has no time zone, '2020-01-01 00:00Z' of line 2 "
      "has one; write all dates in the same way");
}

TEST(DateColumn, SummerTimeShiftsHoursButNoDays) {
  const SeriesTable days =
      dated({"2020-03-28T00:00+01:00", "2020-03-29T00:00+01:00", "2020-03-30T00:00+02:00"});
  EXPECT_EQ(days.frequency.name(), "D");
  EXPECT_EQ(written(days, 2, 1), (Strings{"2020-03-30T00:00", "2020-03-31T00:00"}));
  const SeriesTable hours =
      dated({"2020-03-29T00:00+01:00", "2020-03-29T01:00+01:00", "2020-03-29T03:00+02:00"});
  EXPECT_EQ(hours.frequency.name(), "h");
  EXPECT_EQ(written(hours, 2, 1), (Strings{"2020-03-29T01:00Z", "2020-03-29T02:00Z"}));
}

}  // namespace
}  // namespace ingot::forecast
