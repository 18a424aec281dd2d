#include "ingot/forecast/table/calendar.h"

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
    dates.push_back(
        format_moment(table.frequency.advance(times.back(), i, table.series[0].month_day), table.date_style));
  }
  return dates;
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
       {"", "yesterday", "2016-13-01", "2015-02-29", "2016-07-01 25:00", "01.07.2016", "2016-07-01x",
        "2016-07-01 12:00+24:00", "2016-07-01 12:00-01:60", "2016Q0", "2016Q5", "2016Q11", "2016Q1-01"}) {
    EXPECT_EQ(parse_moment(text), std::nullopt) << text;
  }
}

TEST(Calendar, WritesADateAsItWasRead) {
  for (const char* text :
       {"2016-07-01 12:00:00", "2016-07-01T12:00", "2016/07/01", "2016-07", "1969-12-31 23:00:00", "42",
        "20160701 12:00", "2016-07-01T12:00Z", "2016-07-01 01:00:00+05:30", "2016-12-31T23:00-02:30",
        "2016Q3", "2016-Q1", "2016/Q4"}) {
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
  EXPECT_EQ(parse_compact_date("2016070"), parse_moment("2016-03-10"));  // the 70th day
  for (const char* text : {"20150229", "17991231", "22000101", "2016-7-1", "2016", "201613", "2016370"}) {
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
  for (const auto& [alias, name] : {std::pair{"W-SUN", "W"},
                                    {"2W-MON", "2W"},
                                    {"QS-OCT", "QS"},
                                    {"YE-DEC", "YS"},
                                    {"A-MAR", "YS"},
                                    {"BM", "MS"}}) {
    EXPECT_EQ(parse_frequency(alias).name(), name) << alias;
  }
  EXPECT_THROW(parse_frequency("W-JAN"), InvalidConfig);
  EXPECT_THROW(parse_frequency("D-SUN"), InvalidConfig);
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

TEST(Calendar, SaysWhatARowIsFor) {
  Strings words;
  for (const char* name : {"30s", "15min", "h", "D", "2B", "W", "MS", "QS", "YS", "1 row"}) {
    words.push_back(parse_frequency(name).in_words());
  }
  EXPECT_EQ(words, (Strings{"30 seconds", "15 minutes", "hour", "day", "2 business days", "week", "month",
                            "quarter", "year", "step"}));
}

TEST(Calendar, MonthsKeepTheirDay) {
  const auto continued = [](const Strings& dates, const TableOptions& options = {}) {
    const SeriesTable table = dated(dates, options);
    EXPECT_EQ(table.frequency.name(), "MS");
    return written(table, dates.size(), 3);
  };
  EXPECT_EQ(continued({"2018-12-28", "2019-01-28", "2019-02-28"}),
            (Strings{"2019-03-28", "2019-04-28", "2019-05-28"}));
  EXPECT_EQ(continued({"2019-12-30", "2020-01-30", "2020-02-29"}),
            (Strings{"2020-03-30", "2020-04-30", "2020-05-30"}));
  EXPECT_EQ(continued({"2018-12-31", "2019-01-31", "2019-02-28"}),
            (Strings{"2019-03-31", "2019-04-30", "2019-05-31"}));
}

TEST(Calendar, MonthsGoOnAtTheirFirstOrLastBusinessDay) {
  const SeriesTable last = dated({"1976-06-30", "1976-07-30", "1976-08-31"});
  EXPECT_EQ(last.frequency.name(), "MS");
  EXPECT_EQ(written(last, 0, 3),
            (Strings{"1976-06-30", "1976-07-30", "1976-08-31", "1976-09-30", "1976-10-29", "1976-11-30"}));
  EXPECT_EQ(written(dated({"2000-05-01", "2000-06-01", "2000-07-03"}), 2, 3),
            (Strings{"2000-07-03", "2000-08-01", "2000-09-01", "2000-10-02"}));
  EXPECT_EQ(dated({"2000-05-01", "2000-06-01", "2000-07-03", "2000-09-01"}).filled.missing_rows, 1);
}

TEST(Calendar, AHolidayBesideTheFirstOrLastBusinessDayIsNoEvenGridButIsUnderstoodWhereMonthsAreAskedFor) {
  const Strings easter{"2002-01-31", "2002-02-28", "2002-03-28", "2002-04-30"};  // the 29th was Good Friday
  EXPECT_NE(message_of([&] { dated(easter); }).find("or give --frequency MS"), std::string::npos);
  EXPECT_EQ(written(dated(easter, {.frequency = "M"}), 0, 4),
            (Strings{"2002-01-31", "2002-02-28", "2002-03-28", "2002-04-30", "2002-05-31", "2002-06-28",
                     "2002-07-31", "2002-08-30"}));
  EXPECT_EQ(written(dated({"2001-11-01", "2001-12-03", "2002-01-02"}, {.frequency = "M"}), 2, 3),
            (Strings{"2002-01-02", "2002-02-01", "2002-03-01", "2002-04-01"}));
  // A row on a weekend: no business days.
  EXPECT_EQ(written(dated({"2001-11-01", "2001-12-01", "2002-01-02"}, {.frequency = "M"}), 2, 2),
            (Strings{"2002-01-02", "2002-02-02", "2002-03-02"}));
}

TEST(Calendar, QuartersGoOnAsQuarters) {
  const SeriesTable table = dated({"2019Q3", "2019Q4", "2020Q1"});
  EXPECT_EQ(table.frequency.name(), "QS");
  EXPECT_EQ(written(table, 2, 2), (Strings{"2020Q1", "2020Q2", "2020Q3"}));
}

TEST(Calendar, EverySeriesKeepsItsDayOfTheMonth) {
  const SeriesTable t = table_of(
      "unique_id,ds,y\nA,2019-01-15,1\nA,2019-02-15,2\nA,2019-03-15,2\nB,2019-01-31,3\nB,2019-02-28,4\n");
  EXPECT_EQ(t.series[0].month_day, 15);
  EXPECT_EQ(t.series[1].month_day, 31);
}

TEST(Calendar, BusinessDaysLeaveWeekendsOut) {
  // A Thursday to the Wednesday after the next; Good Friday, the 10th, is a holiday.
  const Strings dates{"2020-04-02", "2020-04-03", "2020-04-06", "2020-04-07", "2020-04-08",
                      "2020-04-09", "2020-04-13", "2020-04-14", "2020-04-15"};
  const SeriesTable table = dated(dates);
  EXPECT_EQ(table.frequency.name(), "B");
  EXPECT_EQ(table.frequency, parse_frequency("B"));
  EXPECT_EQ(table.frequency.season(), 5);
  EXPECT_EQ(table.filled.missing_rows, 1);
  EXPECT_EQ(written(table, 5, 3), (Strings{"2020-04-09", "2020-04-10", "2020-04-13", "2020-04-14",
                                           "2020-04-15", "2020-04-16", "2020-04-17", "2020-04-20"}));
  EXPECT_EQ(dated(dates, {.frequency = "D"}).filled.missing_rows, 5);
  EXPECT_EQ(time_feature_names(table.frequency), time_feature_names(parse_frequency("D")));
  // Before 1970, and two days at a time.
  EXPECT_EQ(parse_frequency("2B").advance(*parse_moment("1969-12-26"), -1), *parse_moment("1969-12-24"));
  EXPECT_EQ(parse_frequency("2B").advance(*parse_moment("1969-12-26"), 1), *parse_moment("1969-12-30"));
}

TEST(Calendar, DaysAreBusinessDaysOnlyWhereNoRowIsOnAWeekend) {
  EXPECT_EQ(dated({"2020-04-03", "2020-04-04", "2020-04-06"}).frequency.name(), "D");
  EXPECT_EQ(dated({"2020-04-06", "2020-04-07", "2020-04-08"}).frequency.name(),
            "D");  // one week shows nothing
  EXPECT_EQ(
      message_of([] {
        dated({"2020-04-03", "2020-04-04", "2020-04-06"}, {.frequency = "B"});
      }),
      "data.csv, line 3, column 'date': '2020-04-04' is on a weekend, which frequency B leaves out; give "
      "--frequency D");
}

TEST(Calendar, ReadsEveryFrequencyThatItInfers) {
  for (const Strings& dates :
       {Strings{"1600000000000", "1600003600000", "1600007200000"}, Strings{"0", "900000000000000"},
        Strings{"2020-01-01 00:00:00", "2020-02-11 01:01:01"}, Strings{"0001-01-01", "9999-01-01"},
        Strings{"2020-01-03", "2020-01-06", "2020-01-07", "2020-01-08"}}) {
    const Frequency frequency = dated(dates, {.fill = FillMethod::zero, .sort = true}).frequency;
    EXPECT_EQ(parse_frequency(frequency.name()), frequency) << frequency.name();
  }
  EXPECT_THROW(parse_frequency("9000000000000000 rows"), InvalidConfig);
  EXPECT_THROW(parse_frequency("400000MS"), InvalidConfig);
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

TEST(DateColumn, OneOffsetOfAllRowsIsWrittenAgain) {
  const SeriesTable days =
      dated({"2020-01-06 00:00+05:30", "2020-01-07 00:00+05:30", "2020-01-08 00:00+05:30"});
  EXPECT_EQ(days.series[0].times[0], parse_moment("2020-01-06")) << "a Monday where it was measured";
  EXPECT_EQ(written(days, 2, 1), (Strings{"2020-01-08 00:00+05:30", "2020-01-09 00:00+05:30"}));
  const SeriesTable hours =
      dated({"2020-01-06 00:00-03:00", "2020-01-06 01:00-03:00", "2020-01-06 02:00-03:00"});
  EXPECT_EQ(hours.series[0].times[0], parse_moment("2020-01-06 03:00"));
  EXPECT_EQ(written(hours, 2, 1), (Strings{"2020-01-06 02:00-03:00", "2020-01-06 03:00-03:00"}));
}

}  // namespace
}  // namespace ingot::forecast
