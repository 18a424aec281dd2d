#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/csv.h"

namespace ingot::forecast {

using data::CsvTable;
using data::DataError;

/// What stands between whole numbers and fractions.
enum class DecimalMark : std::uint8_t { automatic, point, comma };
/// "auto", "point" (also "."), "comma" (","); InvalidConfig for `key` otherwise.
DecimalMark parse_decimal_mark(std::string_view text, std::string_view key = "decimal");
std::string_view name(DecimalMark mark);

/// How the numbers of one column are written.
struct NumberStyle {
  bool comma = false;       ///< the decimal mark; the other one groups thousands
  bool grouped = false;     ///< "1,234,567", "1.234", "1 234", "1'234"
  bool marked = false;      ///< a cell has a point or comma
  bool percent = false;     ///< "12 %", which is 12
  bool unmarked = false;    ///< cells without a percent sign, too, that are not zero
  bool magnitudes = false;  ///< "1.2K", "3M", "1,5 Mrd."
  bool limits = false;      ///< "<1", less than what was measured: half of it
  bool flags = false;       ///< "81 p", whose letter says that it is provisional
  bool boolean = false;     ///< "true", "yes" are 1, "false", "no" are 0
  bool ambiguous = false;   ///< all cells have a point before three digits, in a file of ';': it may group
  std::string currency;     ///< "$", "EUR": the first that a cell has
  std::string other;        ///< another currency that a cell has
};

/// Looks at all cells of some columns. A mark that stands before other than three digits, or behind another,
/// tells what it is; columns that say nothing follow the others. Where none says anything, a point is a
/// decimal mark, but for columns of whole numbers below 1000 and points before three digits: 999, 1.000; a
/// comma groups, but is a decimal mark where ';' or a tab stands between the cells.
/// `usual`: what earlier tables of the same source showed, for columns that say nothing themselves.
std::vector<NumberStyle> number_styles(const CsvTable& csv, std::span<const std::size_t> columns,
                                       DecimalMark mark, DecimalMark usual = DecimalMark::automatic);

/// What columns that were read show: comma where one has it, point where a cell has a mark, else automatic.
DecimalMark decimal_of(std::span<const NumberStyle> styles);

/// Whether a cell stands for a value that is not there: empty, "NaN", "NA", "null", "-" ...
bool means_missing(std::string_view cell);
bool means_missing(const CsvTable& csv, std::size_t row, std::size_t column);
bool is_number(std::string_view cell);
/// Whether a column holds something, and nothing that is a number in any style: a day's name, a note, a
/// store. Not where all of it is true or false.
bool holds_words(const CsvTable& csv, std::size_t column);
/// NaN where the value is missing. DataError for what is not a number, and for numbers that are not finite
/// or too large for f32.
double number_at(const CsvTable& csv, std::size_t row, std::size_t column, const NumberStyle& style);

/// "decimal comma, thousands grouped (a, b), per cent as they stand (c)"; empty for plain numbers.
std::string describe(const CsvTable& csv, std::span<const std::size_t> columns,
                     std::span<const NumberStyle> styles);

}  // namespace ingot::forecast
