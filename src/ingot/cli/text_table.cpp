#include "ingot/cli/text_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/printable.h"
#include "ingot/base/progress.h"

namespace ingot::cli {

namespace {

constexpr int kWidestCell = 48;  // one long value must not push the other columns out of sight

std::string shorten(const std::string& cell) {
  if (display_width(cell) <= kWidestCell) return cell;
  return std::string(fit_width(cell, kWidestCell - 1)) + "…";
}

}  // namespace

std::string cut_on_terminal(std::string_view lines) {
  if (!is_terminal(STDOUT_FILENO)) return std::string(lines);
  const int columns = terminal_columns(STDOUT_FILENO);
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    out += fit_width(lines.substr(0, end), columns);
    if (end < lines.size()) out += '\n';
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

void print_text_table(const ReportTable& whole) {
  ReportTable table = whole;
  std::vector<int> widths;
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = shorten(printable(cell));
  for (std::string& column : table.columns) column = shorten(printable(column));
  for (const std::string& column : table.columns) widths.push_back(display_width(column));
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(static_cast<std::size_t>(widths[i] - display_width(row[i]) + 2), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", cut_on_terminal(line));
  };
  fmt::print("{}\n", printable(table.title));
  print_row(table.columns);
  for (const auto& row : table.rows) print_row(row);
  fmt::print("\n");
}

}  // namespace ingot::cli
