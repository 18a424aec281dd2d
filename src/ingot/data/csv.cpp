#include "ingot/data/csv.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "ingot/base/files.h"
#include "ingot/base/suggest.h"
#include "ingot/base/utf8.h"
#include "ingot/data/csv_labels.h"
#include "ingot/data/parquet.h"
#include "ingot/data/text_file.h"

namespace ingot::data {
namespace {

std::string location(const std::string& path, std::int64_t line, const std::string& column) {
  std::string text = path;
  if (line > 0) text += fmt::format(", line {}", line);
  if (!column.empty()) text += fmt::format(", column '{}'", column);
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The one that the header has most of, outside quotes. The header is the first line that is not empty.
char guess_separator(std::string_view text) {
  constexpr std::string_view kSeparators = ",;\t|";  // in this order where there are as many
  std::array<std::int64_t, kSeparators.size()> counts{};
  bool quoted = false;
  for (const char c : text.substr(std::min(text.find_first_not_of("\r\n "), text.size()))) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    if (const std::size_t found = kSeparators.find(c); found != std::string_view::npos) ++counts[found];
  }
  return kSeparators[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

// Walks over the text and takes one cell after another. Quoted cells are unescaped in place: the result is
// never longer than what it is read from.
class CellReader {
 public:
  CellReader(std::string& text, std::string name) : text_(text), name_(std::move(name)) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    if (take_separator_line()) return;
    separator_ = guess_separator(std::string_view(text_).substr(at_));
  }

  bool at_end() const { return at_ >= text_.size(); }
  std::int64_t line() const { return line_; }
  char separator() const { return separator_; }

  /// Whether a line of nothing, or of separators and spaces alone, starts here; it is passed over.
  bool skip_empty_line() {
    std::size_t end = at_;
    while (end < text_.size() &&
           (text_[end] == ' ' || text_[end] == '\r' || text_[end] == '\t' || text_[end] == separator_))
      ++end;
    if (at_end() || (end < text_.size() && text_[end] != '\n')) return false;
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return true;
  }

  /// The cells of the row that starts here.
  void row(std::vector<std::string_view>& cells) {
    while (true) {
      if (is_formula_of_text()) ++at_;
      cells.push_back(without_formula(text_[std::min(at_, text_.size())] == '"' ? quoted() : plain()));
      if (at_end()) return;
      const char end = text_[at_++];
      if (end == separator_) continue;
      ++line_;  // '\n'
      return;
    }
  }

 private:
  /// ="2010-01-01", by which Excel is told that a cell is text, and nothing else behind it.
  bool is_formula_of_text() const {
    if (text_.compare(at_, 2, "=\"") != 0) return false;
    const std::size_t end = text_.find('"', at_ + 2);
    if (end == std::string::npos) return false;
    const std::size_t next = end + 1;
    return next >= text_.size() || text_[next] == separator_ || text_[next] == '\n' || text_[next] == '\r';
  }
  /// The same in quotes of its own: "=""2010-01-01""".
  static std::string_view without_formula(std::string_view cell) {
    const bool is_one = cell.size() >= 3 && cell.starts_with("=\"") && cell.ends_with('"') &&
                        cell.find('"', 2) == cell.size() - 1;
    return is_one ? cell.substr(2, cell.size() - 3) : cell;
  }

  /// "sep=;", which Excel takes from a file's first line and shows nobody.
  bool take_separator_line() {
    const std::string_view text = std::string_view(text_).substr(at_);
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool named = line.size() == 5 && (line.starts_with("sep=") || line.starts_with("SEP="));
    if (!named) return false;
    separator_ = line.back();
    at_ += std::min(end + 1, text.size());
    ++line_;
    return true;
  }

  std::string_view plain() {
    const std::size_t begin = at_;
    while (!at_end() && text_[at_] != separator_ && text_[at_] != '\n') ++at_;
    std::string_view cell(text_.data() + begin, at_ - begin);
    if (cell.ends_with('\r') && (at_end() || text_[at_] == '\n')) cell.remove_suffix(1);
    return trimmed(cell);
  }

  std::string_view quoted() {
    const std::int64_t start_line = line_;
    const std::size_t begin = ++at_;
    std::size_t out = begin;
    while (true) {
      if (at_end()) throw DataError(name_, start_line, "", "a quote is opened and never closed");
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      text_[out++] = text_[at_++];
    }
    ++at_;
    if (!at_end() && text_[at_] == '\r') ++at_;
    if (!at_end() && text_[at_] != separator_ && text_[at_] != '\n') {
      throw DataError(name_, line_, "",
                      "text follows a closing quote; double a quote that belongs to a cell");
    }
    return {text_.data() + begin, out - begin};
  }

  std::string& text_;
  std::string name_;
  char separator_ = ',';
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

// Names of columns and series are compared byte by byte, and written to JSON: text in another encoding would
// fit a model that does not know its own table.
void check_utf8(std::string_view text, const std::string& name) {
  if (is_valid_utf8(text)) return;
  std::size_t bad = 0;
  for (Utf8Step step = next_utf8(text, 0); step.valid; step = next_utf8(text, bad)) {
    bad += step.length;
  }
  const std::string_view before = text.substr(0, bad);
  const std::string_view cell = text.substr(before.find_last_of(",;\t\"\r\n") + 1);
  throw DataError(
      name, std::ranges::count(before, '\n') + 1, "",
      fmt::format("'{}' is not UTF-8 text (byte 0x{:02X}); save the file as CSV in UTF-8, or name "
                  "its encoding (cp1252 is Excel's)",
                  to_valid_utf8(cell.substr(0, cell.find_first_of(",;\t\"\r\n"))),
                  static_cast<unsigned char>(text[bad])));
}

// An object, or an array of objects or arrays.
bool looks_like_json(std::string_view text) {
  const auto skip_spaces = [&text] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  };
  skip_spaces();
  const bool in_array = text.starts_with('[');
  if (in_array) {
    text.remove_prefix(1);
    skip_spaces();
  }
  if (text.starts_with('[')) return in_array;
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  skip_spaces();
  return text.starts_with('"') || text.starts_with('}');
}

// Spreadsheets save "Unicode text" so.
void check_encoding(std::string_view text, const std::string& name) {
  const bool marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  const std::size_t zero = text.substr(0, 4096).find('\0');
  INGOT_CHECK(
      !marked && zero == std::string_view::npos,
      DataError(name, 0, "",
                marked ? "is UTF-16 text; save it as CSV in UTF-8"
                       : fmt::format("is not a CSV file: byte {} is zero; expected text in UTF-8", zero)));
  check_utf8(text, name);
}

void check_header(const std::string& name, std::int64_t line, const std::vector<std::string>& header) {
  std::set<std::string_view> seen;
  for (const std::string& word : header) {
    if (word.empty()) continue;
    INGOT_CHECK(seen.insert(word).second,
                DataError(name, line, word, "the header names this column twice; rename one of them"));
  }
}

}  // namespace

DataError::DataError(std::string path_, std::int64_t line_, std::string column_, std::string_view problem)
    : Error(fmt::format("{}: {}", location(path_, line_, column_), problem)),
      path(std::move(path_)),
      line(line_),
      column(std::move(column_)) {}

CsvTable CsvTable::parse(std::string text, std::string name, LabelLines labels) {
  CsvTable table;
  table.name_ = std::move(name);
  if (text.find('\n') == std::string::npos) std::ranges::replace(text, '\r', '\n');
  table.text_ = std::make_shared<std::string>(std::move(text));
  check_encoding(*table.text_, table.name_);
  if (labels == LabelLines::passed_over) table.passed_over_ = blank_label_lines(*table.text_);
  CellReader reader(*table.text_, table.name_);
  table.separator_ = reader.separator();
  while (reader.skip_empty_line()) {
  }
  INGOT_CHECK(!reader.at_end(), DataError(table.name_, 0, "", "is empty; expected a header and rows"));
  std::vector<std::string_view> words;
  table.header_line_ = reader.line();
  reader.row(words);
  for (const std::string_view word : words) table.header_.emplace_back(word);
  check_header(table.name_, table.header_line_, table.header_);
  while (!reader.at_end()) {
    if (reader.skip_empty_line()) continue;
    const std::int64_t line = reader.line();
    const std::size_t before = table.cells_.size();
    reader.row(table.cells_);
    std::size_t found = table.cells_.size() - before;
    // Separators at a line's end that the header lacks.
    for (; found > table.columns() && table.cells_.back().empty(); --found) table.cells_.pop_back();
    INGOT_CHECK(found == table.columns(),
                DataError(table.name_, line, "",
                          fmt::format("has {} cells, the header has {}", found, table.columns())));
    table.lines_.push_back(line);
  }
  return table;
}

CsvTable CsvTable::load(const std::string& path, const std::string& encoding) {
  const MappedFile file(path, MappedFile::Access::sequential);
  if (is_parquet(file.text())) return read_parquet_table(path, file.text());
  std::string text = read_text_file(path, encoding);
  INGOT_CHECK(!looks_like_json(text),
              DataError(path, 1, "",
                        "is JSON, not a table; expected CSV, TSV or Parquet (with pandas: "
                        "read_json(path).to_csv('table.csv', index=False); lines=True for JSON lines)"));
  return parse(std::move(text), path, LabelLines::passed_over);
}

CsvTable CsvTable::of_cells(CellTable cells) {
  CsvTable table;
  table.name_ = std::move(cells.name);
  table.header_ = std::move(cells.header);
  table.numeric_ = std::move(cells.numeric);
  table.text_ = std::make_shared<std::string>(std::move(cells.text));
  check_header(table.name_, table.header_line_, table.header_);
  table.cells_.reserve(cells.ends.size());
  const std::string_view text = *table.text_;
  for (std::size_t i = 0, begin = 0; i < cells.ends.size(); begin = cells.ends[i++]) {
    table.cells_.push_back(text.substr(begin, cells.ends[i] - begin));
    if (i % table.columns() == 0) table.lines_.push_back(static_cast<std::int64_t>(i / table.columns()) + 1);
  }
  return table;
}

CsvTable CsvTable::of_columns(std::vector<TypedColumn> columns, std::string name) {
  CsvTable table;
  table.name_ = std::move(name);
  std::vector<TypedCells> cells;
  cells.reserve(columns.size());
  for (TypedColumn& column : columns) {
    INGOT_CHECK(
        column.rows() == columns[0].rows(),
        DataError(table.name_, 0, column.name,
                  fmt::format("has {} rows, the columns before have {}", column.rows(), columns[0].rows())));
    check_utf8(column.name, table.name_);
    check_utf8(column.text, fmt::format("{}, column '{}'", table.name_, column.name));
    column.settle();
    table.header_.push_back(column.name);
    table.numeric_.push_back(column.is_number());
  }
  INGOT_CHECK(!columns.empty(), DataError(table.name_, 0, "", "has no columns; expected dates and values"));
  check_header(table.name_, table.header_line_, table.header_);
  table.lines_.resize(columns[0].rows());
  std::iota(table.lines_.begin(), table.lines_.end(), 2);
  for (TypedColumn& column : columns) cells.emplace_back(std::move(column));
  table.typed_ = std::make_shared<const std::vector<TypedCells>>(std::move(cells));
  return table;
}

CsvTable CsvTable::without_rows(const std::vector<std::size_t>& rows) const {
  CsvTable table = *this;
  table.cells_.clear();
  table.lines_.clear();
  for (std::size_t row = 0, next = 0; row < lines_.size(); ++row) {
    if (next < rows.size() && rows[next] == row) {
      ++next;
      continue;
    }
    if (typed_ == nullptr) {
      const auto begin = cells_.begin() + static_cast<std::ptrdiff_t>(row * columns());
      table.cells_.insert(table.cells_.end(), begin, begin + static_cast<std::ptrdiff_t>(columns()));
    }
    table.lines_.push_back(lines_[row]);
  }
  return table;
}

bool CsvTable::has_column(std::string_view name) const {
  return std::ranges::find(header_, name) != header_.end();
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  INGOT_CHECK(found != header_.end(),
              DataError(name_, header_line_, std::string(name),
                        fmt::format("there is no such column; the header has {}{}", fmt::join(header_, ", "),
                                    did_you_mean(name, header_))));
  return static_cast<std::size_t>(found - header_.begin());
}

}  // namespace ingot::data
