#include "ingot/forecast/table/number_column.h"

#include "tests/forecast/support.h"

namespace ingot::forecast {
namespace {

using Numbers = std::vector<double>;

SeriesTable numbers(const std::vector<std::string>& cells, const TableOptions& options = {},
                    char separator = ',') {
  std::string csv = fmt::format("t{}a\n", separator);
  for (std::size_t i = 0; i < cells.size(); ++i)
    csv += fmt::format("{}{}\"{}\"\n", i + 1, separator, cells[i]);
  return table_of(csv, options);
}
Numbers read(const std::vector<std::string>& cells, const TableOptions& options = {}, char separator = ',') {
  return numbers(cells, options, separator).series[0].columns[0];
}

TEST(NumberColumn, ReadsDecimalCommasAndGroups) {
  EXPECT_EQ(read({"1,5", "2,25", "-0,75"}), (Numbers{1.5, 2.25, -0.75}));
  EXPECT_EQ(read({"100,000.00", "1,234,567.5"}), (Numbers{100000, 1234567.5}));
  EXPECT_EQ(read({"100.000,00", "1.234.567,5"}), (Numbers{100000, 1234567.5}));
  EXPECT_EQ(read({"1 234,5", "1\u00A0234", "12\u202F345,5"}), (Numbers{1234.5, 1234, 12345.5}));
  EXPECT_EQ(read({"1'234.5", "1’234'567"}), (Numbers{1234.5, 1234567}));
  EXPECT_EQ(read({"1,00,000", "12,34,567.5"}), (Numbers{100000, 1234567.5}));
  EXPECT_EQ(read({"1,5e3", "2e-1"}), (Numbers{1500, 0.2}));
}

TEST(NumberColumn, MarksOfMissingValuesAreThoseOfPandasExcelAndStatisticalOffices) {
  for (const char* mark :
       {"..", ":", "#DIV/0!", "#REF!", "#VALUE!", "<NA>", "#N/A N/A", "N.A.", "\u2014", "n/a"})
    EXPECT_EQ(read({"1", mark, "3"}, {.fill = FillMethod::zero}), (Numbers{1, 0, 3})) << mark;
}

TEST(NumberColumn, WhatAnEarlierTableShowedSettlesAMarkThatMayBeEither) {
  EXPECT_EQ(read({"1.234", "2.345"}, {.usual_decimal = DecimalMark::comma}, ';'), (Numbers{1234, 2345}));
  EXPECT_EQ(read({"1.5", "2.345"}, {.usual_decimal = DecimalMark::comma}, ';'), (Numbers{1.5, 2.345}));
  EXPECT_EQ(numbers({"1.234,5", "2"}, {}, ';').decimal, DecimalMark::comma);
  EXPECT_EQ(numbers({"1.5", "2"}).decimal, DecimalMark::point);
  EXPECT_EQ(numbers({"1", "2"}).decimal, DecimalMark::automatic);
  EXPECT_EQ(numbers({"1200", "1310"}, {}, ';').decimal, DecimalMark::automatic) << "no mark, no evidence";
  EXPECT_EQ(numbers({"1.200", "1.310"}, {}, ';').decimal, DecimalMark::automatic) << "a guess is none";
}

TEST(NumberColumn, APointThatMayGroupThousandsIsTold) {
  const auto told = [](const std::vector<std::string>& cells, char separator) {
    return numbers(cells, {}, separator).read_as.find("--decimal comma") != std::string::npos;
  };
  EXPECT_TRUE(told({"102.130", "98.300"}, ';'));
  EXPECT_FALSE(told({"102.130", "98.300"}, ','));
  EXPECT_FALSE(told({"102.130", "98.3"}, ';'));
}

TEST(NumberColumn, TheWholeColumnSaysWhatAMarkIs) {
  EXPECT_EQ(read({"998", "999", "1.000", "1.001"}), (Numbers{998, 999, 1000, 1001}));
  EXPECT_EQ(read({"1.234", "2.345", "0.125"}), (Numbers{1.234, 2.345, 0.125}));
  EXPECT_EQ(read({"1.234", "2.345"}), (Numbers{1.234, 2.345}));
  EXPECT_EQ(read({"1,234", "2,345"}), (Numbers{1234, 2345}));
  EXPECT_EQ(read({"1,234", "2,345"}, {}, ';'), (Numbers{1.234, 2.345})) << "a comma separates no cells there";
  EXPECT_EQ(read({"1,234", "999"}, {}, ';'), (Numbers{1234, 999}));
  EXPECT_EQ(read({"1.234", "2.345"}, {.decimal = DecimalMark::comma}), (Numbers{1234, 2345}));
  // What says nothing follows the other columns.
  const SeriesTable t = table_of("t;a;b\n1;1.234;1,5\n2;2.345;2,5\n");
  EXPECT_EQ(t.series[0].columns[0], (Numbers{1234, 2345}));
}

TEST(NumberColumn, LeavesOutWhatStandsAroundNumbers) {
  EXPECT_EQ(read({"12%", "12.5 %", "-3 %"}), (Numbers{12, 12.5, -3}));
  EXPECT_EQ(read({"$1,234.50", "-$5", "$ -6.25", "($7.00)"}), (Numbers{1234.5, -5, -6.25, -7}));
  EXPECT_EQ(read({"1.234,50 €", "5 EUR"}), (Numbers{1234.5, 5}));
  EXPECT_EQ(read({"₩1,200", "₩ 300"}), (Numbers{1200, 300}));
  EXPECT_EQ(read({"1.234,50 kr.", "5 kr"}), (Numbers{1234.5, 5}));
  EXPECT_EQ(read({"\u22125", "+5"}), (Numbers{-5, 5}));
  EXPECT_EQ(read({"32.33-", "5"}), (Numbers{-32.33, 5}));
  EXPECT_EQ(read({"1.2K", "3M", "-4.35B", "$1.1k"}), (Numbers{1200, 3e6, -4.35e9, 1100}));
  EXPECT_EQ(read({"999K", "1.234M"}), (Numbers{999e3, 1234e3})) << "nothing is grouped there";
  EXPECT_EQ(read({"1,2 Mio. €", "3 Mrd. €", "5,5 Tsd."}), (Numbers{1.2e6, 3e9, 5500}));
  EXPECT_EQ(read({"true", "FALSE", "True"}), (Numbers{1, 0, 1}));
  EXPECT_EQ(read({"WAHR", "FALSCH"}), (Numbers{1, 0})) << "Excel's, in German";
  EXPECT_EQ(read({"S\u00ed", "no", "si"}), (Numbers{1, 0, 1}));
  EXPECT_EQ(read({"S\u00cd", "NO"}), (Numbers{1, 0}));
  EXPECT_EQ(read({"SIM", "N\u00c3O", "n\u00e3o", "N\u00e3o"}), (Numbers{1, 0, 0, 0}));
  EXPECT_EQ(read({"oui", "non"}), (Numbers{1, 0}));
  EXPECT_EQ(read({"yes", "no", "NA", "yes"}), (Numbers{1, 0, 0.5, 1}));
}

TEST(NumberColumn, LettersBehindNumbersAreFlagsWhereMostNumbersHaveNone) {
  EXPECT_EQ(read({"81 p", "79", "78", "77.5 ep"}), (Numbers{81, 79, 78, 77.5}));
  for (const std::vector<std::string>& cells : {std::vector<std::string>{"1.5", "2", "1.2 cr"},
                                                {"1.5", "2", "25 bps"},
                                                {"1.5", "2", "5 in"},
                                                {"1.5", "900 us", "3"},
                                                {"1.2 s", "1.3 s", "2"}})
    EXPECT_THROW(read(cells), DataError) << cells[1];
}

TEST(NumberColumn, SaysWhatItUnderstood) {
  EXPECT_EQ(numbers({"1", "2.5"}).read_as, "dates row numbers");
  EXPECT_EQ(numbers({"79E+03", "1e4", "$5"}).read_as,
            "dates row numbers; numbers: currency signs left out (all columns)");
  EXPECT_EQ(numbers({"998", "1.000"}).read_as,
            "dates row numbers; numbers: decimal comma (all columns), 1.234 is 1234 (all columns)");
  EXPECT_EQ(numbers({"5K", "6"}).read_as, "dates row numbers; numbers: 1.2K is 1200 (all columns)");
  EXPECT_EQ(numbers({"$5", "6 %"}).read_as,
            "dates row numbers; numbers: 12 % is 12 (all columns), 12 without % is 12, too (all columns), "
            "currency signs left out (all columns)");
  EXPECT_EQ(numbers({"5 %", "0", "6%"}).read_as, "dates row numbers; numbers: 12 % is 12 (all columns)");
  EXPECT_EQ(numbers({"$5", "US$6", "7 USD"}).read_as,
            "dates row numbers; numbers: currency signs left out (all columns)");
  EXPECT_EQ(numbers({"$5", "€6"}).read_as,
            "dates row numbers; numbers: USD and EUR counted alike (all columns)");
}

TEST(NumberColumn, RefusesWhatIsNotANumber) {
  for (const std::vector<std::string>& cells : {std::vector<std::string>{"1,5", "one"},
                                                {"1.5", "-7-"},
                                                {"1.5", "(5-)"},
                                                {"1.5", "1,2345"},
                                                {"1,5", "1.5"},
                                                {"1.5", "12 kg"},
                                                {"1.5", "12 m"},
                                                {"1.5", "K"},
                                                {"1.5", "1,,000"},
                                                {"true", "1.5"}}) {
    EXPECT_NE(message_of([&] { numbers(cells); }).find("is not a number"), std::string::npos) << cells[1];
  }
  EXPECT_THROW(parse_decimal_mark("dot"), InvalidConfig);
}

}  // namespace
}  // namespace ingot::forecast
