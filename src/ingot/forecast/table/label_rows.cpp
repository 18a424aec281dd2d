#include "ingot/forecast/table/label_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "ingot/data/csv_labels.h"
#include "ingot/forecast/table/date_names.h"
#include "ingot/forecast/table/number_column.h"

namespace ingot::forecast {
namespace {

constexpr std::size_t kMostUnits = 3, kMostEnds = 10;

bool has_digit(std::string_view cell) { return cell.find_first_of("0123456789") != std::string_view::npos; }

// What a row holds.
struct Row {
  std::string_view first, time;       // its first cell that is not empty; its date
  std::size_t words = 0, filled = 0;  // cells that are neither numbers nor empty; all that are not empty
  bool any_number = false;

  Row(const CsvTable& csv, std::size_t row, std::size_t time_column) : time(csv.cell(row, time_column)) {
    for (std::size_t c = 0; c < csv.columns(); ++c) {
      const std::string_view cell = csv.cell(row, c);
      if (cell.empty()) continue;
      if (filled++ == 0) first = cell;
      if (means_missing(cell)) continue;
      const bool number = cell.find_first_of("0123456789") == 0 || is_number(cell);
      any_number |= number;
      words += number ? 0 : 1;
    }
  }
};

bool names_time(std::string_view cell) {
  return std::ranges::any_of(std::array{"date", "ds", "timestamp", "time", "datetime", "year", "month"},
                             [&](const char* word) { return same_word(word, cell); });
}

// Units, or the other half of names that stand on two lines. A full line of names with a date's among them
// may be the header itself, below a title.
bool is_under_header(const CsvTable& csv, const Row& row) {
  const bool may_be_header =
      row.filled == csv.columns() && csv.columns() > 1 && (names_time(row.time) || names_time(row.first));
  return row.words > 0 && !row.any_number && !has_digit(row.time) && !may_be_header;
}

bool is_end(const Row& row) {
  if (data::names_total(row.first)) return !has_digit(row.time) || row.time == row.first;
  return row.filled == 1 && row.words == 1 && !has_digit(row.time) && !means_missing(row.first);
}

bool repeats_header(const CsvTable& csv, std::size_t row) {
  for (std::size_t c = 0; c < csv.columns(); ++c) {
    if (csv.cell(row, c) != csv.header()[c]) return false;
  }
  return true;
}

}  // namespace

std::optional<CsvTable> without_label_rows(const CsvTable& csv, std::size_t time,
                                           std::vector<std::string>& not_read) {
  std::vector<std::size_t> rows;
  const auto add = [&](std::size_t row, std::string_view what) {
    not_read.push_back(fmt::format("line {} ({} '{}')", csv.line(row), what, Row(csv, row, time).first));
    rows.push_back(row);
  };
  std::size_t first = 0, last = csv.rows();
  while (first + 1 < std::min(csv.rows(), kMostUnits + 1) && is_under_header(csv, Row(csv, first, time)))
    ++first;
  while (last > first + 1 && csv.rows() - last < kMostEnds && is_end(Row(csv, last - 1, time))) --last;
  for (std::size_t row = 0; row < first; ++row) add(row, "under the header:");
  const bool may_repeat = csv.typed(time) == nullptr;  // a frame's dates are not words
  for (std::size_t row = first; may_repeat && row < last; ++row) {
    if (csv.cell(row, time) == csv.header()[time] && repeats_header(csv, row)) add(row, "the header again:");
  }
  for (std::size_t row = last; row < csv.rows(); ++row) add(row, "at the end:");
  return rows.empty() ? std::nullopt : std::optional(csv.without_rows(rows));
}

}  // namespace ingot::forecast
