#include "tests/forecast/support.h"

namespace ingot::forecast {
namespace {

// The first rows of tables as public sources export them, and how they are to be read.
struct PublicTable {
  const char* source;
  const char* text;
  const char* frequency;
  const char* next;  // the date of the row behind the last, written as the table does
  std::vector<std::string> columns;
  double first;  // value of the first column
};

const std::vector<PublicTable> kTables{
    {"European Central Bank: newest first, a separator at each line's end",
     "Date,USD,BGN,\n2021-04-01,1.2,N/A,\n2021-03-31,1.3,N/A,\n2021-03-30,1.1,1.9558,\n",
     "D",
     "2021-04-02",
     {"USD", "BGN"},
     1.1},
    {"FRED",
     "observation_date,DGS10\n2021-01-04,1.48\n2021-01-05,.\n2021-01-06,1.49\n",
     "D",
     "2021-01-07",
     {"DGS10"},
     1.48},
    {"Google Trends: a title, an empty line, <1",
     "Category: All categories\n\nWeek,ingot: (United States)\n2021-01-03,82\n2021-01-10,<1\n2021-01-17,61\n",
     "W",
     "2021-01-24",
     {"ingot: (United States)"},
     82},
    {"Grafana",
     "sep=,\n\"Time\",\"cpu {host=\"\"a\"\"}\",\"mem\"\n\"2021-01-01 00:00:00\",13.3%,8.3 GiB\n"
     "\"2021-01-01 00:01:00\",97.5%,3.5 GiB\n",
     "min",
     "2021-01-01 00:02:00",
     {"cpu {host=\"a\"}"},
     13.3},
    {"Investing.com: newest first",
     "\"Date\",\"Price\",\"Vol.\"\n\"Apr 02, 2021\",\"1,114.50\",\"1.20M\"\n\"Apr 01, "
     "2021\",\"1,637.50\",\"3.20M\"\n",
     "D",
     "Apr 03, 2021",
     {"Price", "Vol."},
     1637.5},
    {"yfinance: three header lines",
     "Price,Close,Volume\nTicker,AMD,AMD\nDate,,\n2021-01-04,101.93,3099316\n2021-01-05,100.5,3099317\n",
     "D",
     "2021-01-06",
     {"Close", "Volume"},
     101.93},
    {"Splunk",
     "_time,count\n2021-01-01T00:00:00.000-0500,115.82\n2021-01-01T01:00:00.000-0500,104.57\n",
     "h",
     "2021-01-01T02:00:00-0500",
     {"count"},
     115.82},
    {"SAS",
     "dt,y\n01JAN2021:00:00:00,90.42\n01JAN2021:01:00:00,97.57\n",
     "h",
     "01JAN2021:02:00:00",
     {"y"},
     90.42},
    {"EViews", "obs,y\n2010M8,1\n2010M9,2\n2010M10,3\n", "MS", "2010M11", {"y"}, 1},
    {"Jena climate",
     "\"Date Time\",\"T (degC)\"\n13.01.2009 00:10:00,-8.63\n13.01.2009 00:20:00,-8.84\n",
     "10min",
     "13.01.2009 00:30:00",
     {"T (degC)"},
     -8.63},
    {"UCI household power: a column of days and one of clocks",
     "Date;Time;Voltage\n16/12/2006;17:24:00;239.13\n16/12/2006;17:25:00;238.74\n",
     "min",
     "16/12/2006 17:26:00",
     {"Voltage"},
     239.13},
    {"UCI electricity: no name over the dates, decimal commas",
     "\"\";\"MT_001\"\n\"2011-01-01 00:15:00\";9,637032\n\"2011-01-01 00:30:00\";4,720515\n",
     "15min",
     "2011-01-01 00:45:00",
     {"MT_001"},
     9.637032},
    {"Beijing air quality: columns of years, months, days and hours",
     "No,year,month,day,hour,pm2.5,cbwd\n1,2010,1,1,22,129,NW\n2,2010,1,1,23,148,cv\n3,2010,1,2,0,159,cv\n",
     "h",
     "2010-01-02 01:00",
     {"No", "pm2.5"},
     1},
    {"Excel: dates kept as text by an apostrophe",
     "ds,y\n'2010-01-01,85.49\n'2010-02-01,93.98\n",
     "MS",
     "2010-03-01",
     {"y"},
     85.49},
    {"Excel: cells kept as text by a formula, with a comma in one",
     "ds,y\n=\"2010-01-01\",=\"1,093.14\"\n\"=\"\"2010-02-01\"\"\",=\"99.54\"\n",
     "MS",
     "2010-03-01",
     {"y"},
     1093.14},
    {"a separator at the end of each row that the header lacks",
     "date,sales\n2021-01-01,100.26,\n2021-01-02,84.3,\n",
     "D",
     "2021-01-03",
     {"sales"},
     100.26},
    {"Excel: months as serial days",
     "period,y\n44197,1\n44228,2\n44256,3\n44287,4\n",
     "MS",
     "44317",
     {"y"},
     1},
    {"Excel: ends of quarters as serial days, one missing",
     "x,y\n43830,1\n43921,2\n44012,3\n44196,4\n44286,5\n",
     "QS",
     "44377",
     {"y"},
     1},
    {"Excel: hours as serial days",
     "Date,y\n44197,1\n44197.04167,2\n44197.08333,3\n44197.125,4\n",
     "h",
     "44197.16667",
     {"y"},
     1},
    {"Excel: quarter hours as serial days, under another name, with ten decimals",
     "t,y\n44197.0104166667,1\n44197.0208333333,2\n44197.03125,3\n44197.0416666667,4\n",
     "15min",
     "44197.0520833333",
     {"y"},
     1},
    {"Excel: days as serial days, under a date's name",
     "Datum;y\n44197;1,5\n44198;2\n44200;3\n",
     "D",
     "44201",
     {"y"},
     1.5},
    {"numbers of rows that are no serial days",
     "t,y\n30000,1\n30010,2\n30020,3\n30040,4\n",
     "10 rows",
     "30050",
     {"y"},
     1},
    {"UCI bike sharing: rows counted before their dates, hours in a column of their own",
     "instant,dteday,hr,cnt\n1,2011-01-01,22,16\n2,2011-01-01,23,40\n3,2011-01-02,0,32\n",
     "h",
     "2011-01-02 01:00",
     {"cnt"},
     16},
    {"ERCOT: hours that end at 24:00, and the one that comes twice",
     "Hour Ending,ERCOT\n10/31/2020 24:00,92.4\n11/01/2020 01:00,81.3\n11/01/2020 02:00,103.2\n"
     "11/01/2020 02:00 DST,106.2\n11/01/2020 03:00,87.9\n11/01/2020 04:00,97\n",
     "h",
     "11/01/2020 05:00",
     {"ERCOT"},
     92.4},
    {"Eurostat: letters behind values, and values that are not told",
     "date,rate\n2021-01,81 p\n2021-02,: c\n2021-03,78.5 bp\n2021-04,77\n",
     "MS",
     "2021-05",
     {"rate"},
     81}};

TEST(PublicTables, AreReadAsTheirSourcesMeanThem) {
  for (const PublicTable& table : kTables) {
    SCOPED_TRACE(table.source);
    const SeriesTable t = table_of(table.text, {.sort = true});
    EXPECT_EQ(t.frequency.name(), table.frequency);
    EXPECT_EQ(t.column_names, table.columns);
    const Series& series = t.series[0];
    EXPECT_FLOAT_EQ(static_cast<float>(series.columns[0][0]), static_cast<float>(table.first));
    const Moment next = t.frequency.advance(series.times.back(), 1, series.month_day);
    EXPECT_EQ(format_moment(next, t.date_style), table.next);
  }
}

struct TurnedTable {
  const char* source;
  const char* text;
  const char* found;
};

TEST(PublicTables, WithDatesInTheHeaderAreRefusedWithTheWayToTurnThem) {
  const std::vector<TurnedTable> tables{
      {"World Bank",
       "\"Data Source\",\"World Development Indicators\",\n\n\"Last Updated Date\",\"2023-12-18\",\n\n"
       "\"Country Name\",\"Country Code\",\"1990\",\"1991\",\"1992\",\"1993\",\"1994\",\"1995\",\n"
       "\"Aruba\",\"ABW\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\n"
       "\"Angola\",\"AGO\",\"1\",\"\",\"3\",\"4\",\"5\",\"6\",\n",
       "'1990', '1991'"},
      {"Johns Hopkins",
       "Province/State,Country/Region,1/22/20,1/23/20,1/24/20,1/25/20,1/26/20,1/27/20\n"
       ",Albania,0,2,4,6,8,10\n,Algeria,0,2,4,6,8,11\n",
       "'1/22/20', '1/23/20'"},
      {"M4", "\"V1\",\"V2\",\"V3\",\"V4\",\"V5\"\n\"M1\",103.6,103.5,117,\n\"M2\",83.9,80.3,99.2,97.9\n",
       "'M1'"}};
  for (const TurnedTable& table : tables) {
    SCOPED_TRACE(table.source);
    try {
      table_of(table.text);
      FAIL() << "was read";
    } catch (const data::DataError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(table.found), std::string::npos) << what;
      EXPECT_NE(what.find("df.melt("), std::string::npos) << what;
    }
  }
}

TEST(PublicTables, TellWhatWasMadeOfSerialDaysAndFlags) {
  EXPECT_NE(table_of("x,y\n44197,1 e\n44228,2\n44256,3\n44287,4\n")
                .read_as.find("2021-01-01 to 2021-04-01, written as Excel's serial days"),
            std::string::npos);
  EXPECT_NE(table_of("date,y\n2021-01,1 e\n2021-02,2\n").read_as.find("without its flag"), std::string::npos);
}

TEST(PublicTables, DaysSince1970AreNotTakenForSerialDays) {
  EXPECT_TRUE(table_of("date,y\n20000,1\n20001,2\n20002,3\n20003,4\n").date_style.number);
  EXPECT_EQ(table_of("date,y\n20000,1\n20001,2\n", {.date_format = "excel"}).frequency.name(), "D");
}

TEST(PublicTables, RowNumbersStayTheTimeWhereTheDatesBehindThemAreUneven) {
  const SeriesTable t = table_of(
      "week,ship_date,y\n1,2021-01-04,3\n2,2021-01-12,4\n3,2021-01-15,5\n4,2021-02-03,6\n5,2021-02-04,7\n");
  EXPECT_EQ(t.series[0].length(), 5U);
  EXPECT_TRUE(t.date_style.number);
}

TEST(PublicTables, SerialDaysAreRowNumbersWhereTheUserSaysSo) {
  const SeriesTable t = table_of("date,y\n44197,1\n44198,2\n44199,3\n", {.date_format = "number"});
  EXPECT_TRUE(t.date_style.number);
  EXPECT_EQ(table_of("t,y\n44197,1\n44198,2\n44199,3\n", {.date_format = "excel"}).frequency.name(), "D");
  EXPECT_THROW(table_of("t,y\n1,1\n2,2\n3,3\n", {.date_format = "excel"}), data::DataError);
}

}  // namespace
}  // namespace ingot::forecast
