#include "ingot/data/csv_labels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include <fmt/format.h>

namespace ingot::data {
namespace {

constexpr std::string_view kSeparators = ",;\t|";
constexpr std::size_t kMostTitles = 30, kMostFooters = 30;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view bare_text(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// A line, or several that quotes hold together.
struct Line {
  std::size_t begin = 0, end = 0;  // without its '\n'
  std::size_t number = 1;
  bool after_blank = false;
};

std::string_view view(const std::string& text, const Line& line) {
  return std::string_view(text).substr(line.begin, line.end - line.begin);
}

using Cells = std::vector<std::string_view>;

Cells split(std::string_view line, char separator) {
  Cells cells;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (quoted || line[i] != separator)) continue;
    cells.push_back(bare_text(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  return cells;
}

std::size_t filled(const Cells& cells) {
  return static_cast<std::size_t>(std::ranges::count_if(cells, [](auto cell) { return !cell.empty(); }));
}

/// Something that a row of values has, and no header: a cell of digits and marks.
bool has_value(const Cells& cells) {
  return std::ranges::any_of(cells, [](std::string_view cell) {
    const bool plain = cell.find_first_not_of("0123456789+-.,:/ %$()'") == std::string_view::npos;
    return plain && std::ranges::any_of(cell, is_digit);
  });
}

/// Names of columns, five or more of which are years that follow each other, as statistics of countries have.
bool has_years(const Cells& cells) {
  std::size_t years = 0;
  std::string_view before;
  for (const std::string_view cell : cells) {
    const bool year = cell.size() == 4 && std::ranges::all_of(cell, is_digit) && cell > before;
    years += year ? 1 : 0;
    if (year) before = cell;
  }
  return years >= 5;
}

/// The lines that are not empty. Separators and spaces alone are empty, too.
std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  Line line;
  line.begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  bool quoted = false, blank = false;
  std::size_t number = 1;
  for (std::size_t i = line.begin; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '"') quoted = !quoted;
    if (i < text.size() && text[i] != '\n') continue;
    if (i == text.size() || !quoted) {
      line.end = i;
      const bool empty = view(text, line).find_first_not_of(" \t\r,;|") == std::string_view::npos;
      line.after_blank = blank;
      blank = empty;
      if (!empty) lines.push_back(line);
      line.begin = i + 1;
      line.number = number + 1;
    }
    ++number;
  }
  return lines;
}

/// How most lines are cut into cells.
struct LineShape {
  char separator = ',';
  std::size_t width = 1;
};

LineShape shape_of(const std::string& text, const std::vector<Line>& lines) {
  constexpr std::size_t kLooked = 400;
  LineShape best;
  std::size_t most = 0;
  for (const char separator : kSeparators) {
    std::map<std::size_t, std::size_t> widths;
    for (std::size_t i = 0; i < std::min(lines.size(), kLooked); ++i)
      ++widths[split(view(text, lines[i]), separator).size()];
    widths.erase(1);
    for (const auto& [width, count] : widths) {
      if (count <= most) continue;
      most = count;
      best = {separator, width};
    }
  }
  return best;
}

constexpr std::array<std::string_view, 22> kTotals{
    "total",         "totals", "grand total", "grand totals", "subtotal",  "sum",
    "overall total", "summe",  "gesamt",      "gesamtsumme",  "insgesamt", "somme",
    "total general", "totale", "totaal",      "suma",         "soma",      "totalt",
    "summa",         "razem",  "итого",       "合計"};
constexpr std::array<std::string_view, 16> kNotes{
    "source",    "sources", "note",  "notes",  "footnote",  "footnotes", "quelle",       "quellen",
    "anmerkung", "fuente",  "fonte", "legend", "copyright", "data from", "last updated", "generated"};

/// Whether a cell begins with one of some words, in any case, and no letter follows.
template <std::size_t N>
bool begins_with_any(std::string_view cell, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    if (cell.size() < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i)
      if (lower(cell[i]) != lower(word[i])) return false;
    return cell.size() == word.size() || !(is_letter(cell[word.size()]) || is_digit(cell[word.size()]));
  });
}

bool is_footer(const Cells& cells, std::size_t width, bool after_blank) {
  const std::string_view first = cells.empty() ? std::string_view() : cells[0];
  if (cells.size() >= width || first.empty() || is_digit(first[0])) return false;
  if (begins_with_any(first, kTotals) || begins_with_any(first, kNotes)) return true;
  const bool marked = first[0] == '*' || first[0] == '(' || first[0] == '[' || first.starts_with("©");
  return marked || (after_blank && is_letter(first[0]) && !has_value(cells));
}

/// What is done with the lines, and told of them.
class Blanker {
 public:
  explicit Blanker(std::string& text) : text_(text), lines_(lines_of(text)) {}

  std::vector<std::string> run() {
    if (!lines_.empty() && text_.compare(lines_[0].begin, 4, "sep=") == 0) lines_.erase(lines_.begin());
    take_comments_above();
    if (lines_.size() < 2) return told_;
    const LineShape shape = shape_of(text_, lines_);
    if (shape.width < 2) return told_;
    take_comments_below(shape);
    take_footers(shape);
    take_titles(shape);
    return told_;
  }

 private:
  Cells cells(std::size_t line, char separator) const { return split(view(text_, lines_[line]), separator); }
  bool is_comment(std::size_t line) const { return text_[lines_[line].begin] == '#'; }

  std::string shown(const Line& line) const {
    constexpr std::size_t kShown = 40;
    std::string words(bare_text(view(text_, line)));
    if (words.size() <= kShown) return words;
    std::size_t end = kShown;  // no character is cut
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U) --end;
    return words.substr(0, end) + "...";
  }
  void empty(const Line& line) {
    for (std::size_t at = line.begin; at < line.end; ++at)
      if (text_[at] != '\n') text_[at] = ' ';
  }

  /// Takes lines [first, first + count) out.
  void blank(std::size_t first, std::size_t count) {
    if (count == 0) return;
    const std::size_t number = lines_[first].number;
    told_.push_back(count == 1 ? fmt::format("line {} ('{}')", number, shown(lines_[first]))
                               : fmt::format("lines {} to {} ('{}' ...)", number,
                                             lines_[first + count - 1].number, shown(lines_[first])));
    const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    std::for_each(begin, end, [&](const Line& line) { empty(line); });
    lines_.erase(begin, end);
  }

  void take_comments_above() {
    std::size_t comments = 0;
    while (comments < lines_.size() && is_comment(comments)) ++comments;
    if (comments == 0 || comments == lines_.size()) return;
    const LineShape shape = shape_of(text_, lines_);
    const Cells first = cells(comments, shape.separator);
    const bool header =
        cells(comments - 1, shape.separator).size() == first.size() && first.size() > 1 && has_value(first);
    if (header) {  // "#date,value"
      text_[lines_[--comments].begin] = ' ';
    }
    blank(0, comments);
  }

  /// The header is where lines of one width begin that go on to the end.
  void take_titles(const LineShape& shape) {
    const auto fits = [&](std::size_t line) { return cells(line, shape.separator).size() == shape.width; };
    const auto is_title = [&](std::size_t line) {
      const Cells row = cells(line, shape.separator);
      return filled(row) == 1 && !row[0].empty();
    };
    if (fits(0) && !is_title(0)) return;
    std::size_t header = lines_.size();
    while (header > 0 && fits(header - 1)) --header;
    while (header + 1 < lines_.size() && is_title(header)) ++header;
    if (header == 0 || header + 1 >= lines_.size() || header > kMostTitles) return;
    const Cells names = cells(header, shape.separator);
    if (filled(names) > 1 && (!has_value(names) || has_years(names))) blank(0, header);
  }

  void take_comments_below(const LineShape& shape) {
    const auto is_other = [&](const Line& line) {
      return text_[line.begin] == '#' && split(view(text_, line), shape.separator).size() != shape.width;
    };
    const auto others = std::ranges::count_if(lines_, is_other);
    if (others == 0) return;
    const auto first = std::ranges::find_if(lines_, is_other);
    told_.push_back(others == 1 ? fmt::format("line {} ('{}')", first->number, shown(*first))
                                : fmt::format("{} lines that begin with #, the first of them line {}", others,
                                              first->number));
    std::erase_if(lines_, [&](const Line& line) {
      const bool other = is_other(line);
      if (other) empty(line);
      return other;
    });
  }

  void take_footers(const LineShape& shape) {
    std::size_t first = lines_.size(), found = lines_.size();
    while (first > 2 && lines_.size() - first < kMostFooters) {
      const Line& line = lines_[first - 1];
      const Cells row = split(view(text_, line), shape.separator);
      if (row.size() >= shape.width) break;
      --first;
      if (is_footer(row, shape.width, line.after_blank)) found = first;
    }
    if (found == lines_.size() || found != first) return;
    blank(first, lines_.size() - first);
  }

  std::string& text_;
  std::vector<Line> lines_;
  std::vector<std::string> told_;
};

}  // namespace

bool names_total(std::string_view cell) { return begins_with_any(cell, kTotals); }

std::vector<std::string> blank_label_lines(std::string& text) { return Blanker(text).run(); }

}  // namespace ingot::data
