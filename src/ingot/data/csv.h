#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/data/typed_column.h"

namespace ingot::data {

/// A table of a user's that cannot be used. `line` counts from 1, the header included (0: the whole file);
/// `column` is the header's word (empty: the whole row).
class DataError : public Error {
 public:
  DataError(std::string path, std::int64_t line, std::string column, std::string_view problem);
  std::string_view kind() const noexcept override { return "data_error"; }
  std::string path;
  std::int64_t line;
  std::string column;
};

/// The cells of a table, row by row, of which CsvTable::of_cells makes one.
struct CellTable {
  std::string name;
  std::vector<std::string> header = {};
  std::vector<bool> numeric = {};  ///< columns whose cells are numbers, written with a point, or truths
  std::string text = {};           ///< of all cells, concatenated
  std::vector<std::size_t> ends = {};
};

/// What becomes of lines that are not part of a table: titles and comments above its header, notes below it.
enum class LabelLines : std::uint8_t { refused, passed_over };

/// A CSV file (RFC 4180) as text cells: quoted cells with line breaks and doubled quotes, \n, \r\n or \r, a
/// byte order mark, and ',', ';' or tab between the cells: what a
/// line "sep=;" before the header says, or whichever the header has most of outside quotes.
/// Empty lines are skipped, and so are those of separators and spaces alone, and empty cells behind a row's
/// last. A cell ="text", as Excel writes what it shall not take for a number, is that text.
class CsvTable {
 public:
  /// DataError for a row with more or fewer cells than the header, a quote that is not closed, a header that
  /// is empty or names a column twice, and for a file that is not text in UTF-8, naming the line. `name`
  /// stands for the file in messages.
  static CsvTable parse(std::string text, std::string name, LabelLines labels = LabelLines::refused);
  /// A file: CSV, whose label lines are passed over, or Parquet where its content is that, as
  /// read_parquet_table has it.
  /// `encoding`: as TextFile's. DataError for JSON, which is not a table.
  static CsvTable load(const std::string& path, const std::string& encoding = {});
  static CsvTable of_cells(CellTable cells);
  /// A frame. Its lines count as if it had been written to a file: its first row is line 2.
  static CsvTable of_columns(std::vector<TypedColumn> columns, std::string name);
  /// The same table without some of its rows, which ascend.
  CsvTable without_rows(const std::vector<std::size_t>& rows) const;

  const std::string& name() const { return name_; }
  const std::vector<std::string>& header() const { return header_; }
  char separator() const { return separator_; }
  /// Whether the file says that a column holds numbers or truths, so that nothing is to be guessed.
  bool is_numeric(std::size_t column) const { return !numeric_.empty() && numeric_[column]; }
  /// The values of a column of a frame, at source_row(row); null where there is nothing but text.
  const TypedColumn* typed(std::size_t column) const {
    if (typed_ == nullptr) return nullptr;
    const TypedColumn& values = (*typed_)[column].column();
    return values.kind == TypedColumn::Kind::text ? nullptr : &values;
  }
  std::size_t source_row(std::size_t row) const { return static_cast<std::size_t>(lines_[row] - 2); }
  std::size_t rows() const { return lines_.size(); }
  std::size_t columns() const { return header_.size(); }
  std::string_view cell(std::size_t row, std::size_t column) const {
    if (typed_ != nullptr) return (*typed_)[column].cell(source_row(row));
    return cells_[row * header_.size() + column];
  }
  /// The line of the file that a row starts at.
  std::int64_t line(std::size_t row) const { return lines_[row]; }
  std::int64_t header_line() const { return header_line_; }
  /// The lines that were passed over: "line 1 ('Sales, monthly')".
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  /// The index of a column; DataError that suggests the nearest where there is none.
  std::size_t column(std::string_view name) const;
  bool has_column(std::string_view name) const;

 private:
  std::string name_;
  char separator_ = ',';
  std::shared_ptr<std::string> text_;  // what the cells point into
  std::vector<std::string> header_;
  std::vector<bool> numeric_;
  std::vector<std::string_view> cells_;
  std::shared_ptr<const std::vector<TypedCells>> typed_;  // of a frame, which has no cells_
  std::vector<std::int64_t> lines_;
  std::int64_t header_line_ = 1;
  std::vector<std::string> passed_over_;
};

}  // namespace ingot::data
