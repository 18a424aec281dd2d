#include "tests/forecast/support.h"

// What stands around a table in files as people export them, and rows that are not rows of values.
namespace ingot::forecast {
namespace {

const std::string kRows = "2020-01-01,5,50\n2020-01-02,6,60\n2020-01-03,7,70\n2020-01-04,8,80\n";

// The table of three days or four has what kRows has, and the line on what was understood tells `told`.
void expect_rows(const std::string& csv, const std::string& told) {
  const SeriesTable t = table_of(csv);
  ASSERT_EQ(t.series.size(), 1U) << csv;
  EXPECT_EQ(t.column_names, (std::vector<std::string>{"a", "b"})) << csv;
  EXPECT_EQ(t.series[0].columns[0], (std::vector<double>{5, 6, 7, 8})) << csv;
  EXPECT_EQ(t.series[0].columns[1], (std::vector<double>{50, 60, 70, 80})) << csv;
  EXPECT_EQ(t.frequency.name(), "D") << csv;
  EXPECT_NE(t.read_as.find("not read: " + told), std::string::npos) << t.read_as;
}

std::string refused(const std::string& csv) {
  return message_of([&] { table_of(csv); });
}

TEST(LabelRows, TitlesAboveTheHeaderAreNotRead) {
  const std::string table = "date,a,b\n" + kRows;
  expect_rows("Sales by day\n" + table, "line 1 ('Sales by day')");
  expect_rows("Sales by day,,\n" + table, "line 1 ('Sales by day,,')");
  expect_rows("\xEF\xBB\xBFSales; by day\nSource: the till, net\n\n" + table,
              "lines 1 to 2 ('Sales; by day' ...)");
  expect_rows("Report:,2024-05-01\r\n\r\ndate,a,b\r\n" + kRows, "line 1 ('Report:,2024-05-01')");
  expect_rows("\"Sales,\nby day\"\n" + table, "line 1 ('Sales,\nby day')");
  expect_rows("latitude,longitude,elevation,zone\n52.5,13.4,38,GMT\n\n" + table,
              "lines 1 to 2 ('latitude,longitude,elevation,zone' ...)");
  EXPECT_EQ(table_of("Sales\nand more\n\ndate;a\n2020-01-01;1,5\n2020-01-02;2,5\n").series[0].columns[0],
            (std::vector<double>{1.5, 2.5}));
}

TEST(LabelRows, CommentsAreNotRead) {
  expect_rows("# made by hand\n# in 2024, twice\ndate,a,b\n" + kRows, "lines 1 to 2 ('# made by hand' ...)");
  expect_rows("# made by hand\n#date,a,b\n" + kRows, "line 1 ('# made by hand')");
  expect_rows("date,a,b\n" + kRows.substr(0, 32) + "# the till was changed\n" + kRows.substr(32) + "# end\n",
              "2 lines that begin with #, the first of them line 4");
  EXPECT_EQ(table_of("#date,a\n2020-01-01,1\n2020-01-02,2\n").time_name, "date");
}

TEST(LabelRows, UnitsUnderTheHeaderAreNotRead) {
  expect_rows("date,a,b\n,EUR,pieces\n" + kRows, "line 2 (under the header: 'EUR')");
  expect_rows("date,a,b\nday,EUR,\n" + kRows, "line 2 (under the header: 'day')");
  expect_rows("date,a,b\nTicker,AAPL,MSFT\nDate,,\n" + kRows, "line 2 (under the header: 'Ticker'), line 3");
  expect_rows("date,a,b\nday,MW,C\n" + kRows, "line 2 (under the header: 'day')");
  expect_rows("Sales\ndate,a,b\n(UTC),[m/s],°C\n" + kRows,
              "line 1 ('Sales'), line 3 (under the header: '(UTC)')");
}

TEST(LabelRows, TotalsAndNotesAtTheEndAreNotRead) {
  const std::string table = "date,a,b\n" + kRows;
  expect_rows(table + "Total,26,260\n", "line 6 (at the end: 'Total')");
  expect_rows(table + "Grand total,26,260\nAverage,,\n", "line 6 (at the end: 'Grand total'), line 7");
  expect_rows(table + "Summe 2020,26,260\n", "line 6 (at the end: 'Summe 2020')");
  expect_rows(table + "Total,26\n", "line 6 ('Total,26')");
  expect_rows(table + "\nSource: the till\n* without 2019, which is lost\n",
              "lines 7 to 8 ('Source: the till' ...)");
  expect_rows(table + "Source: the till,,\n", "line 6 (at the end: 'Source: the till')");
  const SeriesTable t = table_of(
      "store,date,y\nA,2020-01-01,1\nA,2020-01-02,2\nB,2020-01-01,3\nB,2020-01-02,4\n"
      "Total,,10\n",
      {.id_column = "store"});
  EXPECT_EQ(t.series.size(), 2U);
  const SeriesTable named = table_of(
      "store,date,y\nA,2020-01-01,1\nA,2020-01-02,2\nTotal,2020-01-01,3\n"
      "Total,2020-01-02,4\n",
      {.id_column = "store"});
  EXPECT_EQ(named.series.size(), 2U) << "a series may have that name";
}

TEST(LabelRows, AHeaderThatComesAgainIsNotRead) {
  expect_rows("date,a,b\n" + kRows.substr(0, 32) + "date,a,b\n" + kRows.substr(32),
              "line 4 (the header again: 'date')");
}

// What may be a row of values that is damaged, or another header, is not a label.
TEST(LabelRows, WhatMayBeDataIsRefused) {
  const std::string table = "date,a,b\n" + kRows;
  EXPECT_NE(refused(table + "2020-01-0").find("line 6: has 1 cells, the header has 3"), std::string::npos);
  EXPECT_NE(refused(table + "2020-13-01,9,90\n").find("'2020-13-01' is not a date"), std::string::npos);
  EXPECT_NE(refused(table + "?,9,90\n").find("line 6"), std::string::npos);
  EXPECT_NE(refused(table + "fifth,9,90\n").find("'fifth' is not a date"), std::string::npos);
  EXPECT_NE(refused("date,a,b\nfirst,1,2\n" + kRows).find("'first' is not a date"), std::string::npos);
  EXPECT_NE(refused("date,a,b\n2020-01-01,1,2\nTotal,1,2\n2020-01-02,1,2\n").find("'Total' is not a date"),
            std::string::npos);
  EXPECT_NE(refused("date,a\n" + kRows).find("line 2: has 3 cells, the header has 2"), std::string::npos);
  EXPECT_NE(refused("Sales,by day,both\n" + table).find("'date' is not a date"), std::string::npos)
      << "which of the two is the header?";
  EXPECT_NE(refused("A title\n2020-01-01,5\n2020-01-02,6\n2020-01-03,7\n").find("line 2: has 2 cells"),
            std::string::npos)
      << "there is no header";
  EXPECT_NE(
      message_of([] { data::CsvTable::parse("A title\na,b\n1,2\n3,4\n", "f.csv"); }).find("line 2: has 2"),
      std::string::npos)
      << "records of texts have no titles";
}

}  // namespace
}  // namespace ingot::forecast
