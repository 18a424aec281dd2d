#include "ingot/forecast/table/series_table.h"

#include "tests/forecast/support.h"
#include "tests/support/source_dir.h"
#include <rapidcheck.h>

#include "ingot/base/utf8.h"
#include "ingot/forecast/scaler.h"

namespace ingot::forecast {
namespace {

using Strings = std::vector<std::string>;

std::string error_of(const std::string& csv, const TableOptions& options = {}) {
  return message_of([&] { table_of(csv, options); });
}

TEST(Csv, ReadsQuotesLineBreaksAndBothLineEnds) {
  const CsvTable t = CsvTable::parse(
      "\xEF\xBB\xBF"
      "a,\"b, c\",d\r\n1,\"x \"\"y\"\"\nz\", 2 \r\n\n3,,\n",
      "f.csv");
  EXPECT_EQ(t.header(), (Strings{"a", "b, c", "d"}));
  ASSERT_EQ(t.rows(), 2U);
  EXPECT_EQ(t.cell(0, 1), "x \"y\"\nz");
  EXPECT_EQ(t.cell(0, 2), "2");
  EXPECT_EQ(t.cell(1, 2), "");
  EXPECT_EQ(t.line(0), 2);
  EXPECT_EQ(t.line(1), 5);
}

TEST(SeriesTable, DaysMayBeMissingInOneSeriesOfSeveral) {
  std::string csv = "unique_id,ds,y\n";
  for (int day = 1; day <= 30; ++day) csv += fmt::format("a,2020-01-{:02},{}\n", day, day);
  for (const int day : {1, 4, 7, 10, 14, 17, 20, 24, 27, 30})
    csv += fmt::format("b,2020-01-{:02},{}\n", day, day);
  const SeriesTable t = table_of(csv, {.fill = FillMethod::zero});
  EXPECT_EQ(t.frequency.name(), "D");
  ASSERT_EQ(t.series.size(), 2U);
  EXPECT_EQ(t.series[1].columns[0].size(), 30U);
  const std::string alone = csv.substr(0, 15) + csv.substr(csv.find("b,"));
  EXPECT_EQ(table_of(alone, {.fill = FillMethod::zero}).frequency.name(), "D");
  std::string shifted = "ds,y\n";
  for (const int day : {1, 8, 15, 22, 29}) shifted += fmt::format("2020-01-{:02},1\n", day);
  EXPECT_NE(error_of(shifted +
                     "2020-02-05,1\n2020-02-13,1\n2020-02-19,1\n2020-02-26,1\n2020-03-04,1\n2020-03-11,1\n")
                .find("'2020-02-13' is at an irregular distance"),
            std::string::npos)
      << "one week of many that is a day late";
  const std::string partial =
      error_of("ds,y\n2020-01-01,1\n2020-02-01,2\n2020-03-01,3\n2020-04-01,4\n2020-04-20,5\n");
  EXPECT_NE(partial.find("line 6"), std::string::npos) << "of the month that is not over: " << partial;
}

TEST(SeriesTable, ModelsOfTheTargetsAloneReadNoOtherColumn) {
  const std::string csv = "unique_id,ds,y,holiday\na,2020-01-01,1,0\na,2020-01-02,2,0\na,2020-01-03,3,x\n";
  EXPECT_NE(error_of(csv, {.id_column = "unique_id"}).find("'x' is not a number"), std::string::npos);
  const SeriesTable t = table_of(csv, {.targets_only = true});
  EXPECT_EQ(t.column_names, Strings{"y"});
  EXPECT_NE(t.read_as.find("not read: holiday"), std::string::npos) << t.read_as;
}

TEST(SeriesTable, DatesInTheHeaderAreTold) {
  const std::string message =
      error_of("Country,1/22/20,1/23/20,1/24/20,1/25/20,1/26/20,1/27/20\nA,1,2,3,4,5,6\n");
  EXPECT_NE(message.find("has a date in each column's name ('1/22/20', '1/23/20'"), std::string::npos)
      << message;
}

TEST(SeriesTable, ColumnsMayBeNamedLikeDatesWhereAnotherHoldsThem) {
  EXPECT_EQ(table_of("date,1H20,2H20,3T20,1H21,2H21,1H22\n2020-01-01,1,2,3,4,5,6\n2020-01-02,1,2,3,4,5,6\n")
                .column_names.size(),
            6U);
}

TEST(SeriesTable, AnEmptyColumnOfAWideTableStopsNoOther) {
  const SeriesTable table = table_of("date,a,b,c\n2020-01-01,1,,5\n2020-01-02,2,nan,6\n");
  EXPECT_EQ(table.column_names, (Strings{"a", "c"}));
  EXPECT_EQ(table.targets, 2U);
  ASSERT_EQ(table.left_out.size(), 1U);
  EXPECT_EQ(table.left_out[0].id, "b");
}

TEST(SeriesTable, NumbersAndDatesOfParquetKeepTheirTypes) {
  // pandas wrote it, with its dates as the index; 999 beside 1.125 would be thousands in text.
  const SeriesTable table = read_series(test::source_dir() + "/tests/fuzz/corpus/parquet/pandas");
  EXPECT_EQ(table.column_names, (Strings{"sales", "promo"}));
  ASSERT_EQ(table.series.size(), 1U);
  EXPECT_EQ(table.series[0].columns[0], (std::vector<double>{1.5, 999.0, 1.125}));
  EXPECT_EQ(table.series[0].columns[1], (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(table.frequency.name(), "D");
  EXPECT_EQ(table.read_as.find("is 1125"), std::string::npos) << table.read_as;
}

TEST(Csv, TakesSemicolonsAndTabs) {
  EXPECT_EQ(CsvTable::parse("a;b\n1;2\n", "f").cell(0, 1), "2");
  EXPECT_EQ(CsvTable::parse("a\tb\n1\t2", "f").cell(0, 1), "2");
  EXPECT_EQ(CsvTable::parse("a|b\n1|2", "f").cell(0, 1), "2");
}

TEST(SeriesTable, TwoColumnsTogetherNameASeries) {
  std::string csv = "date,store,item,sales\n";
  for (int day = 1; day <= 4; ++day) {
    for (const char* store : {"1", "2"}) {
      for (const char* item : {"milk", "\"a, b\""})
        csv += fmt::format("2020-01-0{},{},{},{}\n", day, store, item, day);
    }
  }
  const SeriesTable table = table_of(csv, {.targets = {"sales"}});
  EXPECT_TRUE(table.long_layout);
  EXPECT_EQ(table.id_name, "store,item");
  ASSERT_EQ(table.series.size(), 4U);
  EXPECT_EQ(table.series[0].id, "1,milk");
  EXPECT_EQ(table.series[1].id, "1,\"a, b\"");
  EXPECT_EQ(table.series[3].columns[0], (std::vector<double>{1, 2, 3, 4}));
  EXPECT_NE(table.read_as.find("series by 'store,item'"), std::string::npos) << table.read_as;
  const SeriesTable again = table_of(csv, with_layout_of(table, {.targets = {"sales"}}));
  EXPECT_EQ(again.series.size(), 4U);
  EXPECT_EQ(table_of(csv, {.id_column = "item, store", .targets = {"sales"}}).series[0].id, "milk,1");
  EXPECT_NE(error_of(csv, {.id_column = "store,itm"}).find("did you mean 'item'?"), std::string::npos);
}

TEST(Csv, TakesTheSeparatorThatItsFirstLineNames) {
  const CsvTable t = CsvTable::parse("\xEF\xBB\xBFsep=;\r\na;b,c\r\n1;2,5\r\n", "f.csv");
  EXPECT_EQ(t.header(), (Strings{"a", "b,c"}));
  EXPECT_EQ(t.cell(0, 1), "2,5");
  EXPECT_EQ(t.line(0), 3);
  EXPECT_EQ(CsvTable::parse("sep=|\na|b\n1|2\n", "f.csv").cell(0, 1), "2");
}

TEST(Csv, FindsTheSeparatorOutsideQuotesAndAfterEmptyLines) {
  EXPECT_EQ(CsvTable::parse("date,\"sales; net;\n eu; us\",b\n1,2,3\n", "f").header(),
            (Strings{"date", "sales; net;\n eu; us", "b"}));
  EXPECT_EQ(CsvTable::parse("\n\r\na;b\n1,5;2\n", "f").cell(0, 0), "1,5");
}

TEST(Csv, ReadsTheLineEndsOfOldMacs) {
  const CsvTable t = CsvTable::parse("a,b\r1,2\r3,4\r", "f");
  ASSERT_EQ(t.rows(), 2U);
  EXPECT_EQ(t.cell(1, 1), "4");
  EXPECT_EQ(t.line(1), 3);
}

TEST(Csv, RefusesTextThatIsNotUtf8) {
  EXPECT_EQ(message_of([] { CsvTable::parse("date;Gr\xF6\xDF\x65;b\n1;2;3\n", "f.csv"); }),
            "f.csv, line 1: 'Gr\xEF\xBF\xBD\xEF\xBF\xBD\x65' is not UTF-8 text (byte 0xF6); save the file as "
            "CSV in UTF-8, or name its encoding (cp1252 is Excel's)");
  EXPECT_NE(message_of([] {
              CsvTable::parse("unique_id,ds,y\nK\xC3\xB6ln,1,2\nK\xF6ln,2,3\n", "f.csv");
            }).find("f.csv, line 3: 'K"),
            std::string::npos);
}

TEST(Csv, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(message_of([] { CsvTable::parse("a,b\n1,2\n3\n", "f.csv"); }),
            "f.csv, line 3: has 1 cells, the header has 2");
  EXPECT_EQ(message_of([] { CsvTable::parse("a,b\n1,\"2\n3,4\n", "f.csv"); }),
            "f.csv, line 2: a quote is opened and never closed");
  EXPECT_NE(message_of([] { CsvTable::parse("a,a\n1,2\n", "f.csv"); }).find("names this column twice"),
            std::string::npos);
  EXPECT_NE(message_of([] { CsvTable::parse("", "f.csv"); }).find("is empty"), std::string::npos);
  EXPECT_NE(message_of([] {
              CsvTable::parse(std::string("\xFF\xFE"
                                          "a\0",
                                          4),
                              "f.csv");
            }).find("is UTF-16"),
            std::string::npos);
  EXPECT_NE(message_of([] { CsvTable::parse(std::string("PK\0\4", 4), "f.csv"); }).find("byte 2 is zero"),
            std::string::npos);
}

// ="00123" is how Excel is told that a cell is text: its reader keeps what is between the quotes.
bool is_formula_of_text(const std::string& cell) {
  return cell.size() >= 3 && cell.starts_with("=\"") && cell.find('"', 2) == cell.size() - 1;
}

TEST(Csv, WrittenCellsComeBackExceptFormulasOfText) {
  EXPECT_TRUE(rc::check([] {
    const auto text_of =
        rc::gen::map(rc::gen::container<std::u32string>(rc::gen::oneOf(
                         rc::gen::inRange<char32_t>(1, 0x80), rc::gen::inRange<char32_t>(0x80, 0xD800),
                         rc::gen::elementOf(std::u32string(U",;\"\r\n\t")))),
                     [](const std::u32string& points) { return to_utf8(points); });
    const auto cells = *rc::gen::nonEmpty(rc::gen::container<Strings>(text_of));
    std::string text, row;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::string quoted = "\"";
      for (const char c : cells[i]) quoted += c == '"' ? "\"\"" : std::string(1, c);
      row += (i > 0 ? "," : "") + quoted + "\"";
      text += (i > 0 ? ",c" : "c") + std::to_string(i);
    }
    const CsvTable t = CsvTable::parse(text + "\n" + row + "\n", "f");
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& cell = cells[i];
      RC_ASSERT(t.cell(0, i) == (is_formula_of_text(cell) ? cell.substr(2, cell.size() - 3) : cell));
    }
  }));
}

TEST(SeriesTable, ReadsAWideTable) {
  const SeriesTable t = table_of("date,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n");
  ASSERT_EQ(t.series.size(), 1U);
  EXPECT_EQ(t.column_names, (Strings{"a", "b"}));
  EXPECT_EQ(t.targets, 2U);
  EXPECT_EQ(t.series[0].columns[1], (std::vector<double>{2, 4}));
  EXPECT_EQ(t.frequency.name(), "D");
}

TEST(SeriesTable, PutsTargetsFirstAndKeepsTheRestAsInputs) {
  const SeriesTable t = table_of("date,a,b,c\n2020-01-01,1,2,3\n2020-01-02,3,4,5\n", {.targets = {"c"}});
  EXPECT_EQ(t.column_names, (Strings{"c", "a", "b"}));
  EXPECT_EQ(t.targets, 1U);
}

TEST(SeriesTable, ReadsALongTableWhoseRowsAreMixed) {
  const SeriesTable t = table_of("unique_id,ds,y,price\nA,1,10,5\nB,7,20,6\nA,2,11,5\nB,8,21,7\nB,9,22,7\n");
  ASSERT_EQ(t.series.size(), 2U);
  EXPECT_TRUE(t.long_layout);
  EXPECT_EQ(t.column_names, (Strings{"y", "price"}));
  EXPECT_EQ(t.targets, 1U);
  EXPECT_EQ(t.series[1].id, "B");
  EXPECT_EQ(t.series[1].columns[0], (std::vector<double>{20, 21, 22}));
}

TEST(SeriesTable, FindsTheDatesOfALongTableBesideIdAndY) {
  const SeriesTable t = table_of("unique_id,y,day\nA,10,2020-01-01\nA,11,2020-01-02\n");
  EXPECT_EQ(t.time_name, "day");
  EXPECT_EQ(t.frequency.name(), "D");
  EXPECT_NE(error_of("unique_id,y\nA,10\n").find("line 1: has no column of dates"), std::string::npos);
}

TEST(SeriesTable, FillsGapsByTheNamedMethodAndSaysSo) {
  const std::string csv = "ds,a\n1,\n2,4\n3,NaN\n5,10\n6,\n";  // row 4 is not there
  const auto filled = [&](FillMethod method) { return table_of(csv, {.fill = method}).series[0].columns[0]; };
  EXPECT_EQ(filled(FillMethod::interpolate), (std::vector<double>{4, 4, 6, 8, 10}));
  EXPECT_EQ(filled(FillMethod::forward), (std::vector<double>{4, 4, 4, 4, 10}));
  EXPECT_EQ(filled(FillMethod::zero), (std::vector<double>{0, 4, 0, 0, 10, 0}));
  EXPECT_EQ(filled(FillMethod::mean), (std::vector<double>{4, 4, 4, 4, 10}));
  const FillReport report = table_of(csv).filled;
  EXPECT_EQ(report.missing_rows, 1);
  EXPECT_EQ(report.missing_values, 2);
  EXPECT_EQ(report.notes[2], "missing: 2 values of column 'a', the first on line 2");
  EXPECT_EQ(error_of("ds,a\n1,2\n2,\n", {.fill = FillMethod::refuse}),
            "data.csv, line 3, column 'a': the value is missing; choose how to fill it with --fill");
  EXPECT_NE(error_of(csv, {.fill = FillMethod::refuse}).find("line 5, column 'ds': rows are missing"),
            std::string::npos);
}

// Inputs that are given ahead of the targets, or a day that is not over.
TEST(SeriesTable, LeavesOutRowsAtTheEndWithoutAnyTargetAndSaysSo) {
  const SeriesTable t =
      table_of("unique_id,ds,y,promo\nA,1,1,0\nA,2,,1\nA,3,3,0\nA,4,,1\nA,5,NA,1\nB,1,5,0\nB,2,6,0\n");
  EXPECT_EQ(t.series[0].columns[0], (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(t.series[0].columns[1], (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(t.series[1].length(), 2U);
  EXPECT_EQ(t.filled.rows_left_out, 2);
  EXPECT_EQ(t.filled.notes[0],
            "2 rows are left out at the end in series 'A', from line 5 on, without a value of 'y'");
  const std::string wide = "ds,a,b\n1,1,2\n2,3,4\n3,5,\n4,,\n";
  EXPECT_EQ(table_of(wide).series[0].columns[1], (std::vector<double>{2, 4, 4}))
      << "one target is there on line 4";
  EXPECT_EQ(table_of(wide, {.fill = FillMethod::zero}).series[0].length(), 4U) << "zero is what they mean";
  EXPECT_NE(error_of(wide, {.fill = FillMethod::refuse}).find("the value is missing"), std::string::npos);
}

TEST(SeriesTable, SaysHowToReadATableOfSeriesWithoutY) {
  const std::string csv = "unique_id,ds,sales,visits\nA,1,1,0\nA,2,2,0\nB,1,3,0\nB,2,4,0\n";
  EXPECT_TRUE(error_of(csv).ends_with(
      "line 1: has column 'unique_id', as a table of several series, but no 'y'; say what is to be forecast: "
      "--target sales (or visits)"))
      << error_of(csv);
  EXPECT_TRUE(error_of("unique_id,ds,sales,visits\nA,1,1,0\nA,2,2,0\n").ends_with("--set layout=wide"));
  EXPECT_EQ(table_of(csv, {.targets = {"sales"}}).series.size(), 2U);
  EXPECT_EQ(table_of("unique_id,ds,sales\nA,1,1\nA,2,2\n").column_names, Strings{"sales"}) << "the only one";
}

TEST(SeriesTable, WordsThatNobodyNamedAreNotReadAndToldSo) {
  const SeriesTable table = table_of("date,day,a\n2020-01-01,Wed,1\n2020-01-02,Thu,2\n");
  EXPECT_EQ(table.column_names, Strings{"a"});
  EXPECT_NE(table.read_as.find("; not read: day (text)"), std::string::npos) << table.read_as;
  EXPECT_NE(error_of("date,a\n2020-01-01,x\n2020-01-02,y\n").find("'x' is not a number"), std::string::npos);
  EXPECT_NE(error_of("date,day,a\n2020-01-01,Wed,1\n2020-01-02,Thu,2\n", {.columns = {"day", "a"}})
                .find("column 'day': 'Wed' is not a number"),
            std::string::npos);
}

TEST(SeriesTable, FillsByTheMeanOfWhatCameBefore) {
  const auto first_rows = [](const char* last) {
    return table_of(fmt::format("ds,a\n1,2\n2,\n3,6\n4,\n5,{}\n", last), {.fill = FillMethod::mean})
        .series[0]
        .columns[0];
  };
  EXPECT_EQ(first_rows("7"), (std::vector<double>{2, 2, 6, 4, 7}));
  EXPECT_EQ(first_rows("1e9"), (std::vector<double>{2, 2, 6, 4, 1e9}));
}

TEST(SeriesTable, MakesUpNoMoreRowsThanThereAre) {
  const std::string sparse = "ds,a\n1,5\n2,5\n5,4\n6,3\n10,2\n11,2\n20,3\n";
  EXPECT_EQ(
      error_of(sparse),
      "data.csv, column 'ds': 13 of 20 rows are missing at frequency 1 row, more than the 7 that are there; "
      "give another --frequency, --fill zero if a missing row stands for 0, or number the rows instead of "
      "dating them if gaps do not matter");
  EXPECT_EQ(table_of(sparse, {.fill = FillMethod::zero}).filled.missing_rows, 13);
  EXPECT_NE(error_of("ds,a\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n", {.frequency = "h"})
                .find("46 of 49 rows are missing at frequency h, more than the 3 that are there"),
            std::string::npos);
  EXPECT_NE(error_of("ds,a\n0,1\n1,2\n900000000000,3\n", {.fill = FillMethod::zero})
                .find("more than 64 times the 3 that are there"),
            std::string::npos);
  // Milliseconds of 1970 and 2008, taken for seconds: the latter are in no year that a calendar counts.
  EXPECT_NE(error_of("ds,a\n1,1\n1200000000000,2\n", {.frequency = "MS"}).find("does not lie on the grid"),
            std::string::npos);
  // One series of several may have a long gap.
  EXPECT_EQ(table_of("unique_id,ds,y\nA,1,1\nA,2,1\nA,3,1\nA,4,1\nB,1,1\nB,2,1\nB,7,1\n").filled.missing_rows,
            4);
}

TEST(SeriesTable, TellsHowToGoOnWithoutASeriesOfALongTable) {
  const SeriesTable table =
      table_of("unique_id,ds,y,x\nA,1,1,7\nA,2,2,7\nA,3,3,7\nB,1,5,1\nB,2,5,2\nB,3,6,3\n");
  EXPECT_EQ(
      message_of([&] { fit_scales(ScalerKind::standard, table.series[1], 2, table); }),
      "data.csv, column 'y': is constant (5) over the 2 rows of the training part of series 'B'; remove the "
      "rows of this series, or pass --scaler none");
  EXPECT_EQ(fit_scales(ScalerKind::standard, table.series[0], 3, table).scale[1], 1) << "a constant input";
}

TEST(SeriesTable, LeavesOutSeriesThatShowNothingAndNamesThem) {
  const SeriesTable t = table_of(
      "unique_id,ds,y\nA,2020-01-01,1\nA,2020-01-02,2\nA,2020-01-03,2\nA,2020-01-04,3\nempty,2020-01-01,\n"
      "empty,2020-01-02,\nsingle,2020-01-01,5\nfar,2020-01-01,5\nfar,2020-01-08,5\n");
  ASSERT_EQ(t.series.size(), 1U);
  EXPECT_EQ(t.frequency.name(), "D");
  Strings told;
  for (const LeftOut& l : t.left_out) told.push_back(l.id + " " + l.reason);
  EXPECT_EQ(told, (Strings{"single has one row only", "empty has no value of 'y'",
                           "far has 2 rows, which are not one day apart"}));
  EXPECT_NE(error_of("unique_id,ds,y\nA,1,1\nB,1,2\n").find("there is one row only in series 'A'"),
            std::string::npos)
      << "nothing is left to go on with";
}

TEST(SeriesTable, ScalesNumbersHoweverSmall) {
  for (const double unit : {1.0, 1e-170, 1e-300}) {
    const SeriesTable table = table_of(fmt::format("ds,a\n1,{}\n2,{}\n", unit, 3 * unit));
    const ColumnScales scales = fit_scales(ScalerKind::standard, table.series[0], 2, table);
    EXPECT_DOUBLE_EQ(scales.scale[0], unit);
    EXPECT_DOUBLE_EQ(scales.shift[0], 2 * unit);
  }
}

TEST(SeriesTable, NamesRowAndColumnOfBadInput) {
  EXPECT_EQ(error_of("date,a\n2020-01-01,1\n2020-01-02,one\n"),
            "data.csv, line 3, column 'a': 'one' is not a number; write 1234.5, or leave the cell empty if "
            "the value is "
            "missing");
  EXPECT_NE(
      error_of("date,a\n2020-01-01,1\n2020-01-02,inf\n").find("line 3, column 'a': 'inf' is not finite"),
      std::string::npos);
  EXPECT_NE(error_of("date,a\n2020-01-01,1\n2020-01-02,-1e39\n").find("column 'a': '-1e39' is too large"),
            std::string::npos);
  EXPECT_NE(
      error_of("date,a\n2020-01-01,+1\n2020-01-02,+-5\n").find("line 3, column 'a': '+-5' is not a number"),
      std::string::npos);
  EXPECT_NE(error_of("date,a\n2020-01-01,1\nsoon,2\n").find("line 3, column 'date': 'soon' is not a date"),
            std::string::npos);
  EXPECT_EQ(error_of("date,a\n2020-01-02,1\n2020-01-01,2\n"),
            "data.csv, line 3, column 'date': '2020-01-01' comes after '2020-01-02' of line 2; sort the rows "
            "by date, or "
            "pass --sort");
  EXPECT_EQ(error_of("date,a\n2020-01-01,1\n2020-01-01,2\n"),
            "data.csv, line 3, column 'date': '2020-01-01' is there already, on line 2; one row per date is "
            "needed");
  EXPECT_TRUE(error_of("shelf,date,y\nA,2020-01-01,1\nA,2020-01-02,1\nB,2020-01-01,2\n")
                  .ends_with("; if column 'shelf' tells series apart, pass --set id_column=shelf"));
  EXPECT_TRUE(error_of("date,shelf_id,sales\n2020-01-01,1,1\n2020-01-01,2,1\n")
                  .ends_with("pass --set id_column=shelf_id --target sales"));
  EXPECT_TRUE(error_of("date,shelf,room,n,m\n1,A,x,1,1\n1,A,y,2,1\n1,B,x,3,1\n1,B,y,3,1\n2,A,x,3,1\n")
                  .ends_with("; if columns 'shelf' and 'room' together tell series apart, pass --set "
                             "id_column=shelf,room --target n (or m)"));
  EXPECT_NE(error_of("date,a\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n2020-01-04 05:00,4\n")
                .find("line 5, column 'date': '2020-01-04 05:00' is at an irregular distance"),
            std::string::npos);
  // The last business day of that February is the 28th. What would take such rows is named.
  EXPECT_TRUE(error_of("date,a\n2020-01-31,1\n2020-02-27,2\n2020-03-31,3\n")
                  .ends_with("evenly spaced (rows may be missing), or give --frequency MS"));
  EXPECT_TRUE(
      error_of("date,a\n2020-01-31,1\n2020-02-05,2\n2020-02-28,3\n").ends_with("or give --frequency"));
  EXPECT_NE(error_of("date,a,b\n2020-01-01,1,\n2020-01-02,2,nan\n", {.columns = {"a", "b"}})
                .find("column 'b': every value is missing"),
            std::string::npos);
  EXPECT_NE(error_of("date,a\n2020-01-01,1\n").find("there is one row only"), std::string::npos);
  EXPECT_NE(error_of("date,a\n").find("has a header but no rows"), std::string::npos);
  EXPECT_NE(error_of("date\n2020-01-01\n").find("has no column of values"), std::string::npos);
  EXPECT_NE(error_of("date,load\n2020-01-01,1\n", {.targets = {"laod"}}).find("did you mean 'load'"),
            std::string::npos);
}

TEST(SeriesTable, MissesAHeaderAndNames) {
  EXPECT_NE(error_of("2020-01-01,1\n2020-01-02,2\n").find("line 1: '2020-01-01' is a date or a number where"),
            std::string::npos);
  EXPECT_NE(error_of("0,1.5\n1,2.5\n").find("line 1: '0' is a date or a number where"), std::string::npos);
  // An index in front, as pandas writes it, is not a series, unless it holds the dates.
  const SeriesTable indexed = table_of(",date,a\n0,2020-01-01,1\n1,2020-01-02,2\n");
  EXPECT_EQ(indexed.column_names, Strings{"a"});
  EXPECT_TRUE(indexed.read_as.ends_with("; not read: the first column (row numbers)")) << indexed.read_as;
  EXPECT_NE(error_of(",date,a\n0.5,2020-01-01,1\n1,2020-01-02,2\n").find("line 1: column 1 has no name"),
            std::string::npos);
  EXPECT_NE(error_of("date,a,\n2020-01-01,1,\n2020-01-02,2,5\n").find("line 1: column 3 has no name"),
            std::string::npos);
  EXPECT_EQ(table_of(",a\n2020-01-01,1\n2020-01-02,2\n").column_names, std::vector<std::string>{"a"});
  EXPECT_EQ(table_of(",date,a\n0,2020-01-01,1\n1,2020-01-02,2\n", {.columns = {"a"}}).column_names,
            std::vector<std::string>{"a"});
}

TEST(SeriesTable, SortsOnlyWhenAsked) {
  EXPECT_EQ(table_of("ds,a\n3,30\n1,10\n2,20\n", {.sort = true}).series[0].columns[0],
            (std::vector<double>{10, 20, 30}));
}

TEST(SeriesTable, ReadsEtth1) {
  INGOT_REQUIRE_ETTH1();
  const SeriesTable t = read_series(etth1());
  EXPECT_EQ(t.series[0].length(), 17'420U);
  EXPECT_EQ(t.column_names.size(), 7U);
  EXPECT_EQ(t.frequency.name(), "h");
  EXPECT_EQ(t.filled.missing_rows + t.filled.missing_values, 0);
}

}  // namespace
}  // namespace ingot::forecast
