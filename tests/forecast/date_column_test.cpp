#include "ingot/forecast/table/date_column.h"

#include "tests/forecast/support.h"

namespace ingot::forecast {
namespace {

using Strings = std::vector<std::string>;

std::string iso(Moment moment) { return format_moment(moment, {.clock = " %H:%M"}); }

// The first and the last row, and the row after it as the table writes it.
Strings ends_of(const SeriesTable& t) {
  const std::vector<Moment>& times = t.series[0].times;
  return {iso(times.front()), iso(times.back()),
          format_moment(t.frequency.advance(times.back(), 1, t.series[0].month_day), t.date_style)};
}
Strings ends(const Strings& dates, const TableOptions& options = {}) {
  return ends_of(dated(dates, options));
}

TEST(DateColumn, NumbersOfWhichSomeAreNoMonthsAreWeeks) {
  for (const char* separator : {"", "-"}) {
    std::vector<std::string> weeks;
    for (int week = 1; week <= 53; ++week) weeks.push_back(fmt::format("2020{}{:02}", separator, week));
    weeks.push_back(fmt::format("2021{}01", separator));
    const SeriesTable t = dated(weeks);
    EXPECT_EQ(t.frequency.name(), "W") << separator;
    EXPECT_EQ(format_moment(t.frequency.advance(t.series[0].times.back(), 1), t.date_style),
              fmt::format("2021{}02", separator));
    weeks.resize(12);
    EXPECT_EQ(dated(weeks).frequency.name(), "MS") << "which may be months";
  }
}

TEST(DateColumn, SixDigitsThatAreDaysOfSeveralMonthsAreDays) {
  EXPECT_EQ(ends({"210130", "210131", "210201"}),
            (Strings{"2021-01-30 00:00", "2021-02-01 00:00", "210202"}));
  EXPECT_EQ(ends({"991130", "991231", "000131"}),
            (Strings{"1999-11-30 00:00", "2000-01-31 00:00", "000229"}));
  EXPECT_EQ(ends({"220128", "220131", "220201", "220202"})[2], "220203") << "weekdays";
  EXPECT_EQ(ends({"200201", "200301", "200401", "200501", "200601", "200701", "200801", "200901", "201001",
                  "201101", "201201", "210101"})[2],
            "210201");
  EXPECT_EQ(dated({"202030", "202031", "202032"}).frequency.name(), "W");
  EXPECT_EQ(dated({"202101", "202102", "202103"}).frequency.name(), "MS");
}

// The numbers of a range, one after another.
Strings counted(int from, int to, int step = 1) {
  Strings texts;
  for (int i = from; i <= to; i += step) texts.push_back(fmt::format("{:06}", i));
  return texts;
}

TEST(DateColumn, SixDigitsOf2021AreDaysRatherThanWeeksOf2101) {
  const SeriesTable t = dated(counted(210101, 210131));
  EXPECT_EQ(ends_of(t), (Strings{"2021-01-01 00:00", "2021-01-31 00:00", "210201"}));
  EXPECT_NE(t.read_as.find("it may as well be row numbers: --date-format number"), std::string::npos)
      << t.read_as;
  EXPECT_EQ(ends(counted(210101, 211201, 100))[2], "220101");
  EXPECT_EQ(ends({"210101", "210102", "210103", "210105", "210106", "210107"})[2], "210108")
      << "of which one is missing";
}

TEST(DateColumn, SixDigitsThatAreAsEvenlyOtherThanDaysAreNot) {
  const auto is_number = [](const Strings& texts) { return dated(texts).date_style.number; };
  EXPECT_TRUE(is_number(counted(500101, 500103)));
  EXPECT_TRUE(is_number(counted(110101, 111201, 100)));
  EXPECT_TRUE(is_number(counted(10121, 310121, 10000))) << "January 2021, days first";
  EXPECT_TRUE(is_number(counted(10121, 120121, 10000))) << "2021, months first";
  EXPECT_EQ(dated(counted(200101, 200131)).date_style.date, "%G%V");
  EXPECT_EQ(dated(counted(200101, 201201, 100)).date_style.date, "%Y%m");
  Strings seasons = counted(201014, 201030);
  for (const std::string& week : counted(201114, 201130)) seasons.push_back(week);
  EXPECT_THROW(dated(seasons), Error) << "weeks, of which many are missing";
  Strings clock = counted(100101, 100128);
  for (const int minute : {100200, 100300})
    for (const std::string& second : counted(minute + 1, minute + 28)) clock.push_back(second);
  EXPECT_THROW(dated(clock), Error) << "numbers, of which many are missing";
  EXPECT_NE(dated(counted(110101, 111201, 100)).read_as.find("it may as well be days: --date-format %y%m%d"),
            std::string::npos);
}

TEST(DateColumn, TheFlagForSmallLettersIsOfNamesAlone) {
  EXPECT_EQ(ends({"30-sep-20", "01-oct-20"}, {.date_format = "%d-%#b-%y"})[2], "02-oct-20");
  EXPECT_NE(message_of([] {
              check_date_choice("%#d/%m/%Y", "date_format");
            }).find("the flag '#' (small letters) is for names, as %#b, not for %d"),
            std::string::npos);
}

TEST(DateColumn, NamesOfMonthsAreWrittenInTheCaseOfTheRows) {
  EXPECT_EQ(ends({"30-sep-20", "01-oct-20"})[2], "02-oct-20");
  EXPECT_EQ(ends({"30 september 2020", "1 october 2020"})[2], "2 october 2020");
  EXPECT_EQ(ends({"30-SEP-20", "01-OCT-20"})[2], "02-OCT-20");
  EXPECT_EQ(ends({"mars-19", "avr.-19"})[2], "mai-19");
}

TEST(DateColumn, ReadsAndWritesOnDatesAsTheyCome) {
  EXPECT_EQ(ends({"30/01/2020", "31/01/2020", "01/02/2020"}),
            (Strings{"2020-01-30 00:00", "2020-02-01 00:00", "02/02/2020"}));
  EXPECT_EQ(ends({"1/30/2020", "1/31/2020", "2/1/2020"}),
            (Strings{"2020-01-30 00:00", "2020-02-01 00:00", "2/2/2020"}));
  EXPECT_EQ(ends({"30.01.20", "31.01.20", "01.02.20"}),
            (Strings{"2020-01-30 00:00", "2020-02-01 00:00", "02.02.20"}));
  EXPECT_EQ(ends({"31-Jan-2020", "29-Feb-2020", "31-Mar-2020"}),
            (Strings{"2020-01-31 00:00", "2020-03-31 00:00", "30-Apr-2020"}));
  EXPECT_EQ(ends({"Jan 1, 2020", "Jan 2, 2020"}),
            (Strings{"2020-01-01 00:00", "2020-01-02 00:00", "Jan 3, 2020"}));
  EXPECT_EQ(ends({"January 2020", "February 2020"}),
            (Strings{"2020-01-01 00:00", "2020-02-01 00:00", "March 2020"}));
  EXPECT_EQ(ends({"JAN-20", "FEB-20"}), (Strings{"2020-01-01 00:00", "2020-02-01 00:00", "MAR-20"}));
  EXPECT_EQ(ends({"Mon, 06 Jan 2020", "Tue, 07 Jan 2020"}),
            (Strings{"2020-01-06 00:00", "2020-01-07 00:00", "Wed, 08 Jan 2020"}));
  EXPECT_EQ(ends({"11/2019", "12/2019"}), (Strings{"2019-11-01 00:00", "2019-12-01 00:00", "01/2020"}));
  EXPECT_EQ(ends({"Q3 2019", "Q4 2019"}), (Strings{"2019-07-01 00:00", "2019-10-01 00:00", "Q1 2020"}));
  EXPECT_EQ(ends({"2020-W52", "2020-W53"}), (Strings{"2020-12-21 00:00", "2020-12-28 00:00", "2021-W01"}));
  EXPECT_EQ(ends({"2020W526", "2020W527"}, {.date_format = "%GW%V%u"}),
            (Strings{"2020-12-26 00:00", "2020-12-27 00:00", "2020W531"}));
}

TEST(DateColumn, ReadsDatesAsStatisticalOfficesAndLogsWriteThem) {
  EXPECT_EQ(ends({"2020 NOV", "2020 DEC"}), (Strings{"2020-11-01 00:00", "2020-12-01 00:00", "2021 JAN"}));
  EXPECT_EQ(ends({"2020-M11", "2020-M12"}), (Strings{"2020-11-01 00:00", "2020-12-01 00:00", "2021-M01"}));
  EXPECT_EQ(ends({"2020:11", "2020:12"}), (Strings{"2020-11-01 00:00", "2020-12-01 00:00", "2021:01"}));
  EXPECT_EQ(ends({"2020:Q3", "2020:Q4"}), (Strings{"2020-07-01 00:00", "2020-10-01 00:00", "2021:Q1"}));
  EXPECT_EQ(ends({"2020:3", "2020:4"}), (Strings{"2020-07-01 00:00", "2020-10-01 00:00", "2021:1"}));
  EXPECT_EQ(ends({"3Q20", "4Q20"}), (Strings{"2020-07-01 00:00", "2020-10-01 00:00", "1Q21"}));
  EXPECT_EQ(ends({"3Q 2020", "4Q 2020"})[2], "1Q 2021");
  EXPECT_EQ(ends({"2020\u5e7411\u670830\u65e5", "2020\u5e7412\u67081\u65e5"})[2],
            "2020\u5e7412\u67082\u65e5");
  EXPECT_EQ(ends({"2020\u5e749\u6708", "2020\u5e7410\u6708"})[2], "2020\u5e7411\u6708");
  EXPECT_EQ(ends({"2020\ub144 9\uc6d4 30\uc77c", "2020\ub144 10\uc6d4 1\uc77c"})[2],
            "2020\ub144 10\uc6d4 2\uc77c");
  EXPECT_EQ(ends({"Tue Jan 05 22:00:00 2021", "Tue Jan 05 23:00:00 2021"}),
            (Strings{"2021-01-05 22:00", "2021-01-05 23:00", "Wed Jan 06 00:00:00 2021"}));
  EXPECT_EQ(ends({"Tue Jan 05 22:00:00 +0000 2021", "Tue Jan 05 23:00:00 +0000 2021"})[1],
            "2021-01-05 23:00");
  EXPECT_EQ(ends({"Sat Mar 27 2021 00:00:00 GMT+0100 (Central European Time)",
                  "Sat Mar 27 2021 01:00:00 GMT+0100 (Central European Time)"})[1],
            "2021-03-27 00:00");
  EXPECT_EQ(ends({"27/Mar/2021:22:00:00 +0000", "27/Mar/2021:23:00:00 +0000"})[1], "2021-03-27 23:00");
  EXPECT_EQ(ends({"2021-03-27 00:00 (UTC)", "2021-03-27 01:00 (UTC)"})[2], "2021-03-27 02:00 (UTC)");
  EXPECT_EQ(ends({"2021010522", "2021010523"}),
            (Strings{"2021-01-05 22:00", "2021-01-05 23:00", "2021010600"}));
}

TEST(DateColumn, ReadsAndWritesOnHalfYearsAndQuartersByTheirWords) {
  for (const Strings& halves : {Strings{"2020H1", "2020H2", "2021H1"},
                                {"2020-S1", "2020-S2", "2021-S1"},
                                {"2020 H1", "2020 H2", "2021 H1"},
                                {"H1 2020", "H2 2020", "H1 2021"},
                                {"1H20", "2H20", "1H21"},
                                {"1. Halbjahr 2020", "2. Halbjahr 2020", "1. Halbjahr 2021"}}) {
    EXPECT_EQ(ends({halves[0], halves[1]}), (Strings{"2020-01-01 00:00", "2020-07-01 00:00", halves[2]}));
  }
  EXPECT_EQ(ends({"2020T3", "2020T4"}), (Strings{"2020-07-01 00:00", "2020-10-01 00:00", "2021T1"}));
  EXPECT_EQ(ends({"3. Quartal 2020", "4. Quartal 2020"})[2], "1. Quartal 2021");
  EXPECT_EQ(ends({"Quarter 3, 2020", "Quarter 4, 2020"})[2], "Quarter 1, 2021");
  EXPECT_EQ(ends({"4T 2020", "1T 2021"})[2], "2T 2021");
  EXPECT_THROW(dated({"2020H2", "2020H3"}), DataError);
}

TEST(DateColumn, ReadsAndWritesOnDecimalYears) {
  // Mauna Loa's, of the 15th of each month; those of R and of pandas; quarters; whole years.
  EXPECT_EQ(ends({"1958.2027", "1958.2877", "1958.3699"}),
            (Strings{"1958-03-01 00:00", "1958-05-01 00:00", "1958.4548"}));
  EXPECT_EQ(ends({"1949.000", "1949.083", "1949.167"}),
            (Strings{"1949-01-01 00:00", "1949-03-01 00:00", "1949.250"}));
  EXPECT_EQ(ends({"1947.00", "1947.25", "1947.50", "1947.75"})[2], "1948.00");
  EXPECT_EQ(ends({"1947.0", "1948.0", "1949.0"})[2], "1950.0");
  const SeriesTable days = dated({"2016.01", "2016.02", "2016.03"});
  EXPECT_EQ(ends_of(days)[2], "2016.04") << "months with a point";
  EXPECT_THROW(dated({"2016.0000", "2016.0027", "2016.0055"}), DataError) << "days have no such reading";
  EXPECT_THROW(dated({"1990.0", "1990.1", "1990.2", "1990.3"}), DataError)
      << "tenths of a year are not months";
}

TEST(DateColumn, FractionsOfASecondAreRounded) {
  const SeriesTable t =
      dated({"2021-01-01T00:00:00.345Z", "2021-01-01T00:00:59.998Z", "2021-01-01T00:02:00.4Z"});
  EXPECT_EQ(ends_of(t), (Strings{"2021-01-01 00:00", "2021-01-01 00:02", "2021-01-01T00:03:00Z"}));
  EXPECT_NE(t.read_as.find("fractions of a second rounded"), std::string::npos) << t.read_as;
  EXPECT_EQ(dated({"2021-01-01 00:00:00.000", "2021-01-01 00:01:00.000"}).read_as.find("rounded"),
            std::string::npos);
  EXPECT_EQ(ends({"2021-01-01 22:00:00.25", "2021-01-01 23:00:00.25"}, {.date_format = "%F %T.%f"})[1],
            "2021-01-01 23:00");
}

TEST(DateColumn, AnOffsetOfZeroIsWrittenAsTheRowsHaveIt) {
  // Of Python's isoformat, strftime's %z and PostgreSQL.
  EXPECT_EQ(ends({"2021-01-01T22:00:00+00:00", "2021-01-01T23:00:00+00:00"})[2], "2021-01-02T00:00:00+00:00");
  EXPECT_EQ(ends({"2021-01-01 22:00:00+0000", "2021-01-01 23:00:00+0000"})[2], "2021-01-02 00:00:00+0000");
  EXPECT_EQ(ends({"2021-01-01 22:00:00+00", "2021-01-01 23:00:00+00"})[2], "2021-01-02 00:00:00+00");
  EXPECT_EQ(ends({"2021-07-01 22:00:00-0730", "2021-07-01 23:00:00-0730"})[2], "2021-07-02 00:00:00-0730");
  EXPECT_EQ(ends({"2021-07-01 22:00:00+02", "2021-07-01 23:00:00+02"})[2], "2021-07-02 00:00:00+02");
  // London's, in the night that summer time ends.
  EXPECT_EQ(ends({"2021-10-31T01:00:00+01:00", "2021-10-31T01:00:00+00:00", "2021-10-31T02:00:00+00:00"})[2],
            "2021-10-31T03:00:00+00:00");
  EXPECT_EQ(ends({"2021-10-31T00:00:00+01:00", "2021-10-31T01:00:00+01:00", "2021-10-31T01:00:00Z",
                  "2021-10-31T02:00:00Z"})[2],
            "2021-10-31T03:00:00Z");
}

TEST(DateColumn, ReadsHalvesOfTheDayAndDatesAsStataAndWindowsWriteThem) {
  EXPECT_EQ(ends({"2010m11", "2010m12"}), (Strings{"2010-11-01 00:00", "2010-12-01 00:00", "2011m01"}));
  EXPECT_EQ(ends({"1/1/2021 11:00:00 a. m.", "1/1/2021 12:00:00 p. m."})[1], "2021-01-01 12:00");
  EXPECT_EQ(ends({"2021-01-01 \uc624\uc804 11:00:00", "2021-01-01 \uc624\ud6c4 12:00:00"})[1],
            "2021-01-01 12:00");
  EXPECT_EQ(ends({"2021/1/1 \u4e0a\u5348 12:00:00", "2021/1/1 \u4e0a\u5348 1:00:00"})[1], "2021-01-01 01:00");
  EXPECT_EQ(
      ends({"2021\u5e741\u67081\u65e5 \u661f\u671f\u4e94", "2021\u5e741\u67082\u65e5 \u661f\u671f\u516d"})[1],
      "2021-01-02 00:00");
}

TEST(DateColumn, SecondsSince1970AreRounded) {
  EXPECT_EQ(ends({"1609804800.25", "1609808399.75"})[1], "2021-01-05 01:00");
  EXPECT_EQ(ends({"1.6098048e+09", "1.6098084e+09"})[1], "2021-01-05 01:00");
  EXPECT_EQ(ends({"1609804800.000", "1609808400.000"}, {.date_format = "epoch-s"})[1], "2021-01-05 01:00");
}

TEST(DateColumn, OfIntervalsTheStartCounts) {
  const SeriesTable t = dated({"01.01.2018 22:00 - 01.01.2018 23:00", "01.01.2018 23:00 - 02.01.2018 00:00"});
  EXPECT_EQ(ends_of(t)[1], "2018-01-01 23:00");
  EXPECT_NE(t.read_as.find("the starts of intervals"), std::string::npos) << t.read_as;
  EXPECT_THROW(dated({"2016-07-01 - 13:00", "2016-07-01 - 14:00"}), DataError) << "a date and its time";
  EXPECT_EQ(dated({"2018-01-01/2018-01-07", "2018-01-08/2018-01-14"}).frequency.name(), "W");
}

TEST(DateColumn, MidnightsOfAClockWithSummerTimeInUtcAreDays) {
  const SeriesTable berlin = dated({"2021-03-26T23:00:00Z", "2021-03-27T23:00:00Z", "2021-03-28T22:00:00Z"});
  EXPECT_EQ(berlin.frequency.name(), "D");
  EXPECT_EQ(ends_of(berlin), (Strings{"2021-03-27 00:00", "2021-03-29 00:00", "2021-03-30"}));
  const SeriesTable york = dated({"2021-10-01T04:00:00Z", "2021-11-01T04:00:00Z", "2021-12-01T05:00:00Z"});
  EXPECT_EQ(york.frequency.name(), "MS");
  EXPECT_THROW(dated({"2021-03-11T21:00:00Z", "2021-03-12T21:00:00Z", "2021-03-13T20:00:00Z"}), DataError)
      << "New York's close is no midnight";
  EXPECT_THROW(dated({"2021-03-27T22:00:00Z", "2021-03-27T23:00:00Z", "2021-03-28T23:00:00Z"}), DataError)
      << "two rows of one day are hours, and one is missing";
}

TEST(DateColumn, SpacesThatDoNotBreakLinesAreSpaces) {
  EXPECT_EQ(ends({"1/1/2020, 1:00:00\u202fAM", "1/1/2020, 2:00:00\u202fAM"})[1], "2020-01-01 02:00");
  EXPECT_EQ(ends({"01\u00a0Jan\u00a02018", "02\u00a0Jan\u00a02018"})[1], "2018-01-02 00:00");
}

TEST(DateColumn, DirectivesThatStandForSeveralAreRead) {
  EXPECT_EQ(ends({"2021-01-05 22:00:00", "2021-01-05 23:00:00"}, {.date_format = "%F %T"})[2],
            "2021-01-06 00:00:00");
  EXPECT_EQ(ends({"12/30/20", "12/31/20"}, {.date_format = "%D"})[2], "01/01/21");
  for (const char* format : {"%F %H:%M:%S.%f", "%F %T.%f"})
    EXPECT_EQ(ends({"2021-01-05 22:00:00.000", "2021-01-05 23:00:00.000"}, {.date_format = format})[1],
              "2021-01-05 23:00")
        << format;
  EXPECT_EQ(ends({"2021-01-05 00:00:00.000000", "2021-01-06 00:00:00.000000"},
                 {.date_format = "%Y-%m-%d %H:%M:%S.%f"})[1],
            "2021-01-06 00:00");
}

TEST(DateColumn, TheOrderThatAnEarlierTableShowedIsTakenWhereDatesFitIt) {
  const Strings months{"01/01/2021", "01/02/2021", "01/03/2021"};
  EXPECT_EQ(dated(months).frequency.name(), "D") << "month first: days of January";
  EXPECT_EQ(dated(months, {.usual_order = DateOrder::day_first}).frequency.name(), "MS");
  const Strings others{"01/13/2021", "01/14/2021"};
  EXPECT_EQ(ends(others, {.usual_order = DateOrder::day_first})[0], "2021-01-13 00:00") << "which do not";
  EXPECT_EQ(dated({"30/01/2020", "31/01/2020"}).date_order, DateOrder::day_first);
  EXPECT_EQ(dated({"2020-01-30", "2020-01-31"}).date_order, std::nullopt);
}

TEST(DateColumn, ReadsAndWritesOnNamesOfOtherLanguages) {
  const auto next = [](const Strings& dates, const TableOptions& options = {}) {
    return ends(dates, options)[2];
  };
  EXPECT_EQ(next({"9. Februar 2020", "10. Februar 2020"}), "11. Februar 2020");
  EXPECT_EQ(next({"Januar 2020", "Februar 2020"}), "März 2020");
  EXPECT_EQ(next({"Mai 2020", "Juni 2020", "Juli 2020"}), "August 2020");
  EXPECT_EQ(next({"01-Okt-20", "01-Nov-20"}), "01-Dez-20");
  EXPECT_EQ(next({"Jan 20", "Feb 20", "Mrz 20"}), "Apr 20");
  EXPECT_EQ(next({"15. Sept. 2020", "15. Okt. 2020"}), "15. Nov. 2020");
  EXPECT_EQ(next({"Montag, 30. Dezember 2019", "Dienstag, 31. Dezember 2019"}), "Mittwoch, 01. Januar 2020");
  EXPECT_EQ(next({"Mo 30.12.2019", "Di 31.12.2019"}), "Mi 01.01.2020");
  EXPECT_EQ(next({"30 décembre 2019", "31 décembre 2019"}), "01 janvier 2020");
  EXPECT_EQ(next({"31 DECEMBRE 2019", "1er janvier 2020"}), "2 janvier 2020");
  EXPECT_EQ(next({"15 janv. 2020", "15 févr. 2020"}), "15 mars 2020");
  EXPECT_EQ(next({"enero de 2020", "febrero de 2020"}), "marzo de 2020");
  EXPECT_EQ(next({"1 de enero de 2020", "2 de enero de 2020"}), "3 de enero de 2020");
  EXPECT_EQ(next({"gennaio 2020", "febbraio 2020"}), "marzo 2020");
  EXPECT_EQ(next({"1 stycznia 2020", "2 stycznia 2020"}), "3 stycznia 2020");
  EXPECT_EQ(next({"1 января 2020", "1 февраля 2020"}), "1 марта 2020");
  EXPECT_EQ(next({"maart 2020", "april 2020"}), "mei 2020");
  EXPECT_EQ(next({"1. Januar 2020", "2. Januar 2020"}, {.date_format = "%-d. %B %Y"}), "3. Januar 2020");
  EXPECT_NE(dated({"1. Mai 2020", "2. Mai 2020", "3. Mai 2020"}).read_as.find("names in German"),
            std::string::npos);
}

TEST(DateColumn, ReadsAndWritesOnOrdinalsAndWeeks) {
  EXPECT_EQ(ends({"1st January 2020", "2nd January 2020"})[2], "3rd January 2020");
  EXPECT_EQ(ends({"Jan 10th, 2020", "Jan 11th, 2020"})[2], "Jan 12th, 2020");
  EXPECT_EQ(ends({"30th of Jan 2020", "31st of Jan 2020"})[2], "1st of Feb 2020");
  EXPECT_EQ(ends({"KW52/2020", "KW53/2020"}), (Strings{"2020-12-21 00:00", "2020-12-28 00:00", "KW01/2021"}));
  for (const char* week :
       {"KW {}/2020", "CW{}-2020", "Week {}, 2020", "W{} 2020", "2020-KW{}", "2020 W{}", "S{} 2020"}) {
    const SeriesTable t = dated({fmt::format(fmt::runtime(week), 10), fmt::format(fmt::runtime(week), 11)});
    EXPECT_EQ(t.frequency.name(), "W") << week;
    EXPECT_EQ(ends_of(t)[2], fmt::format(fmt::runtime(week), 12));
  }
  EXPECT_EQ(ends({"KW 9 2020", "KW 10 2020"})[2], "KW 11 2020");
}

TEST(DateColumn, ReadsDatesWithoutSeparators) {
  EXPECT_EQ(ends({"2019M11", "2019M12"})[2], "2020M01");
  EXPECT_EQ(ends({"30JAN2020", "31JAN2020"})[2], "01FEB2020");
  EXPECT_EQ(ends({"2019q3", "2019q4"})[2], "2020q1");
  EXPECT_EQ(ends({"20200130T2300Z", "20200131T0000Z"})[2], "20200131T0100Z");
  EXPECT_EQ(ends({" 2020-01-30 ", "2020-01-31 "})[2], "2020-02-01");
}

TEST(DateColumn, ReadsDaysOfTheYear) {
  EXPECT_EQ(ends({"2020-365", "2020-366", "2021-001"}),
            (Strings{"2020-12-30 00:00", "2021-01-01 00:00", "2021-002"}));
  EXPECT_EQ(ends({"2020/001", "2020/002"})[2], "2020/003");
  EXPECT_EQ(ends({"2021364", "2021365", "2022001"}),
            (Strings{"2021-12-30 00:00", "2022-01-01 00:00", "2022002"}));
  EXPECT_EQ(ends({"2020-060T23:00:00Z", "2020-061T00:00:00Z"})[2], "2020-061T01:00:00Z");
  for (const char* no_day : {"2021-366", "2020-367", "2020-000"})
    EXPECT_NE(message_of([&] {
                dated({"2020-001", no_day});
              }).find("is not a date"),
              std::string::npos)
        << no_day;
  EXPECT_EQ(dated({"2020998", "2020999"}).read_as, "dates row numbers") << "which are no days";
}

TEST(DateColumn, ReadsFiscalYearsAndYearsThatEndInTheNext) {
  EXPECT_EQ(ends({"FY2019", "FY2020"}), (Strings{"2019-01-01 00:00", "2020-01-01 00:00", "FY2021"}));
  EXPECT_EQ(ends({"FY18", "FY19"})[2], "FY20");
  EXPECT_EQ(ends({"fy 2019", "fy 2020"})[2], "fy 2021");
  EXPECT_EQ(ends({"FY2018-19", "FY2019-20"})[2], "FY2020-21");
  EXPECT_EQ(ends({"FY98/99", "FY99/00"})[2], "FY00/01");
  EXPECT_EQ(ends({"FY2019 Q3", "FY2019 Q4"})[2], "FY2020 Q1");
  EXPECT_EQ(ends({"FY20Q3", "FY20Q4"})[2], "FY21Q1");
  EXPECT_EQ(ends({"Q3 FY2019", "Q4 FY2019"})[2], "Q1 FY2020");
  EXPECT_EQ(ends({"2017/18", "2018/19", "2019/20"}),
            (Strings{"2017-01-01 00:00", "2019-01-01 00:00", "2020/21"}));
  EXPECT_EQ(ends({"1998-99", "1999-00", "2000-01"})[2], "2001-02") << "which are neither months nor weeks";
  EXPECT_EQ(ends({"2017/2018", "2018/2019"})[2], "2019/2020");
  EXPECT_EQ(dated({"2018-19", "2019-20", "2020-21", "2021-22"}).frequency.name(), "YS");
  EXPECT_NE(dated({"FY2019", "FY2020"}).read_as.find("fiscal years stand for the calendar's"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              dated({"2017/18", "2018/18", "2019/20"});
            }).find("is not a date"),
            std::string::npos);
}

TEST(DateColumn, ReadsClocksOfTwelveHours) {
  EXPECT_EQ(ends({"2020-01-01 10:00:00 AM", "2020-01-01 11:00:00 AM", "2020-01-01 12:00:00 PM"}),
            (Strings{"2020-01-01 10:00", "2020-01-01 12:00", "2020-01-01 01:00:00 PM"}));
  EXPECT_EQ(ends({"1/13/2020 11:00 pm", "1/14/2020 12:00 am"}),
            (Strings{"2020-01-13 23:00", "2020-01-14 00:00", "1/14/2020 01:00 am"}));
  EXPECT_EQ(ends({"2020-01-01 11 AM", "2020-01-01 12 PM"}),
            (Strings{"2020-01-01 11:00", "2020-01-01 12:00", "2020-01-01 01 PM"}));
  EXPECT_EQ(parse_moment("2020-01-01 13:00 PM"), std::nullopt);
  EXPECT_EQ(parse_moment("2020-01-01 24:00"), parse_moment("2020-01-02 00:00"));
}

TEST(DateColumn, ReadsSecondsAndMillisecondsSince1970) {
  EXPECT_EQ(ends({"1577836800", "1577840400"}),
            (Strings{"2020-01-01 00:00", "2020-01-01 01:00", "1577844000"}));
  EXPECT_EQ(ends({"1577836800000", "1577923200000"}),
            (Strings{"2020-01-01 00:00", "2020-01-02 00:00", "1578009600000"}));
  EXPECT_TRUE(dated({"1577836800", "1577836801"}, {.date_format = "number"}).date_style.number);
  EXPECT_EQ(ends({"0", "3600"}, {.date_format = "epoch-s"})[1], "1970-01-01 01:00");
}

TEST(DateColumn, ReadsNamesOfZones) {
  EXPECT_EQ(ends({"2020-01-01 00:00 UTC", "2020-01-01 01:00 UTC"}),
            (Strings{"2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00 UTC"}));
  EXPECT_EQ(ends({"2020-01-01 00:00 EST", "2020-01-01 01:00 EST"}),
            (Strings{"2020-01-01 05:00", "2020-01-01 06:00", "2020-01-01 02:00 EST"}));
  EXPECT_EQ(ends({"2020-01-01 00:00 Europe/Berlin", "2020-01-01 01:00 Europe/Berlin"}),
            (Strings{"2020-01-01 00:00", "2020-01-01 01:00", "2020-01-01 02:00 Europe/Berlin"}));
  EXPECT_EQ(ends({"2021-10-31 01:00 CEST", "2021-10-31 02:00 CEST", "2021-10-31 02:00 CET"}),
            (Strings{"2021-10-30 23:00", "2021-10-31 01:00", "2021-10-31 02:00Z"}));
  EXPECT_EQ(parse_moment("2020-01-01 00:00 XYZ"), std::nullopt);
}

TEST(DateColumn, ReadsRegionsBehindOffsets) {
  EXPECT_EQ(ends({"2020-07-01T10:00:00+02:00[Europe/Berlin]", "2020-07-01T11:00:00+02:00[Europe/Berlin]"}),
            (Strings{"2020-07-01 08:00", "2020-07-01 09:00", "2020-07-01T12:00:00+02:00"}));
  EXPECT_EQ(ends({"2020-07-01T10:00Z[UTC]", "2020-07-01T11:00Z[UTC]"})[2], "2020-07-01T12:00Z");
  const SeriesTable days =
      dated({"2020-03-28T00:00+01:00[Europe/Berlin]", "2020-03-29T00:00+01:00[Europe/Berlin]",
             "2020-03-30T00:00+02:00[Europe/Berlin]", "2020-03-31T00:00+02:00[Europe/Berlin]"});
  EXPECT_EQ(days.frequency.name(), "D") << "across the start of summer time";
  EXPECT_EQ(ends({"2020-07-01 10:00 UTC+02:00", "2020-07-01 11:00 UTC+02:00"}),
            (Strings{"2020-07-01 08:00", "2020-07-01 09:00", "2020-07-01 12:00 UTC+02:00"}));
  EXPECT_EQ(ends({"2020-07-01 10:00 GMT-5", "2020-07-01 11:00 GMT-5"})[0], "2020-07-01 15:00");
  EXPECT_NE(message_of([&] {
              dated({"2020-07-01T10:00+02:00[", "2020-07-01T11:00+02:00["});
            }).find("is not a date"),
            std::string::npos);
}

TEST(DateColumn, TheWholeColumnSaysWhetherDaysOrMonthsComeFirst) {
  EXPECT_NE(dated({"11/01/2020", "12/01/2020", "13/01/2020"})
                .read_as.find("day first, as '13/01/2020' on line 4 shows"),
            std::string::npos);
  // Nothing above 12, but hours of five days in a row.
  Strings hours;
  for (int h = 0; h < 48; ++h) hours.push_back(fmt::format("0{}/02/2020 {:02}:00", 1 + h / 24, h % 24));
  const SeriesTable even = dated(hours);
  EXPECT_EQ(ends_of(even)[1], "2020-02-02 23:00");
  EXPECT_NE(even.read_as.find("day first, which puts the rows at even distances"), std::string::npos)
      << even.read_as;
  const SeriesTable either = dated({"01/01/2020", "02/01/2020", "03/01/2020"});
  EXPECT_NE(
      either.read_as.find("month first (it may as well be day first: --date-format day-first reads it so)"),
      std::string::npos)
      << either.read_as;
  EXPECT_EQ(ends({"01/01/2020", "02/01/2020", "03/01/2020"}, {.date_format = "day-first"})[1],
            "2020-01-03 00:00");
  const SeriesTable dots = dated({"01.01.2020", "01.02.2020", "01.03.2020"});
  EXPECT_EQ(ends_of(dots)[1], "2020-03-01 00:00");
  EXPECT_NE(dots.read_as.find("day first (it may as well be month first"), std::string::npos) << dots.read_as;
  EXPECT_EQ(ends({"01.01.2020", "01.13.2020", "01.25.2020"})[1], "2020-01-25 00:00");
  const SeriesTable weekdays = table_of(
      "d;y\n02/01/2023;1,5\n03/01/2023;2,5\n04/01/2023;1\n05/01/2023;2\n06/01/2023;1\n09/01/2023;2\n");
  EXPECT_EQ(ends_of(weekdays)[1], "2023-01-09 00:00") << weekdays.read_as;
  EXPECT_EQ(ends({"01/01/2020", "02/01/2020", "03/01/2020"}, {.date_format = "%d/%m/%Y"})[1],
            "2020-01-03 00:00");
}

TEST(DateColumn, AFormatThatDoesNotFitNamesTheRow) {
  EXPECT_EQ(message_of([] {
              dated({"01/01/2020", "2020-01-02"}, {.date_format = "%d/%m/%Y"});
            }),
            "data.csv, line 3, column 'date': '2020-01-02' is not a date; expected what --date-format "
            "%d/%m/%Y reads");
  EXPECT_THROW(check_date_choice("dd/mm/yyyy", "date_format"), InvalidConfig);
  EXPECT_THROW(check_date_choice("%d/%m", "date_format"), InvalidConfig);
  EXPECT_THROW(check_date_choice("%Y %K", "date_format"), InvalidConfig);
}

// Clocks went back at three on 2021-10-31, and forward at two on 2021-03-28.
TEST(DateColumn, RepeatedHoursOfSummerTimeAreEven) {
  Strings hours;
  for (Moment m = *parse_moment("2021-03-27 00:00"); m < *parse_moment("2021-11-02 00:00"); m += 3600) {
    const bool skipped = m == parse_moment("2021-03-28 02:00");
    if (!skipped) hours.push_back(iso(m));
    if (m == parse_moment("2021-10-31 02:00")) hours.push_back(iso(m));
  }
  const SeriesTable t = dated(hours);
  EXPECT_EQ(t.filled.missing_rows, 0);
  EXPECT_EQ(t.series[0].length(), hours.size());
  EXPECT_EQ(ends_of(t), (Strings{"2021-03-27 00:00", "2021-11-01 23:00", "2021-11-02 00:00"}));
  EXPECT_NE(t.read_as.find("'2021-10-31 02:00' comes twice"), std::string::npos) << t.read_as;
  Strings quarters;
  for (const char* hour : {"01", "02", "02", "03"}) {
    for (const char* minute : {"00", "15", "30", "45"})
      quarters.push_back(fmt::format("2021-11-07 {}:{}", hour, minute));
  }
  EXPECT_EQ(dated(quarters).series[0].length(), 16U);
  EXPECT_THROW(dated({"2021-06-16 01:00", "2021-06-16 02:00", "2021-06-16 02:00", "2021-06-16 03:00"}),
               DataError)
      << "no night in which clocks change";
}

TEST(DateColumn, AnHourThatSummerTimeSkipsIsAGapOfLocalClocks) {
  const SeriesTable sydney =
      dated({"2020-10-04 00:00", "2020-10-04 01:00", "2020-10-04 03:00", "2020-10-04 04:00"});
  EXPECT_EQ(sydney.frequency.name(), "h");
  EXPECT_EQ(sydney.series[0].length(), 5U);
  EXPECT_EQ(sydney.filled.missing_rows, 1);
}

TEST(DateColumn, TakesDaysAndClocksFromTwoColumns) {
  const SeriesTable t = table_of(
      "Date;Time;CO;;\n31/01/2020;22.00.00;2,5;;\n31/01/2020;23.00.00;2,25;;\n01/02/"
      "2020;00.00.00;3;;\n;;;;\n");
  EXPECT_EQ(t.column_names, Strings{"CO"});
  EXPECT_EQ(t.series[0].columns[0], (std::vector<double>{2.5, 2.25, 3}));
  EXPECT_EQ(ends_of(t), (Strings{"2020-01-31 22:00", "2020-02-01 00:00", "01/02/2020 01.00.00"}));
}

TEST(DateColumn, HoursOfAColumnOfTheirOwnMayRunTo24AndBeNumbers) {
  const auto ends = [](const std::string& header, const std::vector<std::string>& clocks) {
    std::string csv = header + "\n";
    for (std::size_t i = 0; i < 3 * clocks.size(); ++i)
      csv += fmt::format("2020-01-{:02},{},{}\n", 1 + i / clocks.size(), clocks[i % clocks.size()], i);
    const SeriesTable t = table_of(csv);
    EXPECT_EQ(t.column_names, Strings{"load"}) << header;
    EXPECT_EQ(t.frequency, parse_frequency("h")) << header;
    return ends_of(t);
  };
  std::vector<std::string> to_23, to_24, floats, hundreds, padded, clocks;
  for (int h = 0; h < 24; ++h) {
    to_23.push_back(fmt::format("{}", h));
    to_24.push_back(fmt::format("{}", h + 1));
    floats.push_back(fmt::format("{}.0", h));
    hundreds.push_back(fmt::format("{}", 100 * (h + 1)));
    padded.push_back(fmt::format("{:04}", 100 * h));
    clocks.push_back(fmt::format("{:02}:00", h + 1));
  }
  const Strings from_0{"2020-01-01 00:00", "2020-01-03 23:00", "2020-01-04 00:00"};
  const Strings from_1{"2020-01-01 01:00", "2020-01-04 00:00", "2020-01-04 01:00"};
  EXPECT_EQ(ends("date,hour,load", to_23), from_0);
  EXPECT_EQ(ends("Date,Hour,load", to_24), from_1);
  EXPECT_EQ(ends("date,hr,load", floats), from_0);
  EXPECT_EQ(ends("Date,HE,load", hundreds), from_1);
  EXPECT_EQ(ends("date,time,load", padded), from_0);
  EXPECT_EQ(ends("date,hour_ending,load", clocks), from_1);
}

TEST(DateColumn, TakesYearsMonthsDaysAndHoursFromColumnsOfTheirOwn) {
  const SeriesTable hours = table_of(
      "No,year,month,day,hour,pm2.5\n1,2010,1,31,22,5\n2,2010,1,31,23,6\n3,2010,2,1,0,7\n4,2010,2,1,1,8\n");
  EXPECT_EQ(hours.column_names, (Strings{"No", "pm2.5"}));
  EXPECT_EQ(hours.time_name, "date");
  EXPECT_EQ(ends_of(hours), (Strings{"2010-01-31 22:00", "2010-02-01 01:00", "2010-02-01 02:00"}));
  const auto ends = [](const std::string& csv) { return ends_of(table_of(csv)); };
  EXPECT_EQ(ends("Year,Month,y\n2019,11,1\n2019,12,2\n2020,1,3\n"),
            (Strings{"2019-11-01 00:00", "2020-01-01 00:00", "2020-02"}));
  EXPECT_EQ(ends("Month,Year,y\nNov,2019,1\nDec,2019,2\nJan,2020,3\n").back(), "Feb 2020");
  EXPECT_EQ(ends("year,quarter,y\n2019,3,1\n2019,4,2\n2020,1,3\n").back(), "2020Q2");
  EXPECT_EQ(ends("year,quarter,y\n2019,Q3,1\n2019,Q4,2\n2020,Q1,3\n").back(), "2020Q2");
  EXPECT_EQ(ends("year,week,y\n2020,52,1\n2020,53,2\n2021,1,3\n").back(), "2021-W02");
  const SeriesTable stores = table_of(
      "store,year,month,y\nA,2020,1,1\nA,2020,2,2\nA,2020,3,4\nB,2020,1,3\nB,2020,2,5\nB,2020,3,4\n");
  EXPECT_EQ(stores.series.size(), 2U);
  const SeriesTable dated = table_of("date,year,month,y\n2020-01-01,2020,1,1\n2020-01-02,2020,1,2\n");
  EXPECT_EQ(dated.column_names, (Strings{"year", "month", "y"})) << "a column of dates says it all";
}

TEST(DateColumn, NumbersCalledHourAreValuesWhereEachDayHasOne) {
  const SeriesTable t = table_of("date,hour,y\n2020-01-01,7,1\n2020-01-02,8,2\n2020-01-03,7,3\n");
  EXPECT_EQ(t.column_names, (Strings{"hour", "y"}));
}

}  // namespace
}  // namespace ingot::forecast
