// Wraps text as Python's textwrap does, with the settings of Jinja's wordwrap.
#include <algorithm>
#include <utility>

#include "ingot/base/parallel.h"
#include "ingot/base/utf8.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {
namespace {

using Chunk = std::u32string_view;

bool is_wrap_space(char32_t c) { return c == U' ' || (c >= U'\t' && c <= U'\r'); }
bool is_wrap_letter(char32_t c) { return is_word_character(c) && !is_numeric(c); }
bool is_word_or_punctuation(char32_t c) {
  return is_word_character(c) || std::u32string_view(U"!\"'&.,?").find(c) != std::u32string_view::npos;
}
bool is_blank(Chunk chunk) { return std::all_of(chunk.begin(), chunk.end(), is_white_space); }

/// Cuts a line where it may be broken: at white space, behind hyphens and around dashes between words.
class LineCutter {
 public:
  LineCutter(Chunk line, bool at_hyphens) : line_(line), at_hyphens_(at_hyphens) {}

  std::vector<Chunk> chunks(Budget& budget) const {
    std::vector<Chunk> out;
    for (std::size_t at = 0; at < line_.size();) {
      const std::size_t end = is_wrap_space(line_[at]) ? run_end(at, true)
                              : at_hyphens_            ? word_end(at)
                                                       : run_end(at, false);
      budget.spend_items(1);
      out.push_back(line_.substr(at, end - at));
      at = end;
    }
    return out;
  }

 private:
  /// The end of what is white space, or of what is not.
  std::size_t run_end(std::size_t at, bool spaces) const {
    while (at < line_.size() && is_wrap_space(line_[at]) == spaces) ++at;
    return at;
  }
  bool letter(std::size_t at) const { return at < line_.size() && is_wrap_letter(line_[at]); }
  bool hyphen(std::size_t at) const { return at < line_.size() && line_[at] == U'-'; }
  /// The end of two or more hyphens from `at` on that stand between words; 0: there are none.
  std::size_t dash_end(std::size_t at) const {
    if (!hyphen(at) || !hyphen(at + 1) || at == 0 || !is_word_or_punctuation(line_[at - 1])) return 0;
    std::size_t end = at;
    while (hyphen(end)) ++end;
    return end < line_.size() && is_word_character(line_[end]) ? end : 0;
  }
  /// Whether the hyphen at `at` joins two words: letters, at least two on either side, or another hyphen.
  bool joins(std::size_t at) const {
    const bool before =
        at >= 2 && letter(at - 1) && (letter(at - 2) || (at >= 3 && hyphen(at - 2) && letter(at - 3)));
    return before && letter(at + 1) && (letter(at + 2) || (hyphen(at + 2) && letter(at + 3)));
  }
  std::size_t word_end(std::size_t at) const {
    if (const std::size_t dash = dash_end(at); dash > 0) return dash;
    std::size_t end = at + 1;
    for (; end < line_.size() && !is_wrap_space(line_[end]); ++end) {
      if (hyphen(end) && joins(end)) return end + 1;
      if (dash_end(end) > 0) return end;
    }
    return end;
  }

  Chunk line_;
  bool at_hyphens_;
};

/// How much of a chunk that is longer than a line goes onto what is left of one.
std::size_t cut_of(Chunk chunk, std::size_t space, bool at_hyphens) {
  if (!at_hyphens || chunk.size() <= space || space == 0) return space;
  const std::size_t hyphen = chunk.rfind(U'-', space - 1);
  const bool inside = hyphen != Chunk::npos && chunk.substr(0, hyphen).find_first_not_of(U'-') != Chunk::npos;
  return inside ? hyphen + 1 : space;
}

/// The lines that chunks fill, each given to `put` as what it consists of.
void fill_lines(std::vector<Chunk> chunks, const WrapStyle& style,
                FunctionRef<void(const std::vector<Chunk>&)> put) {
  const std::size_t width = style.width;
  bool first = true;
  std::vector<Chunk> line;
  for (std::size_t at = 0; at < chunks.size();) {
    if (!first && is_blank(chunks[at])) ++at;
    line.clear();
    std::size_t size = 0;
    for (; at < chunks.size() && size + chunks[at].size() <= width; ++at) {
      size += chunks[at].size();
      line.push_back(chunks[at]);
    }
    if (at < chunks.size() && chunks[at].size() > width) {
      if (style.break_long_words) {
        const std::size_t cut = cut_of(chunks[at], width - size, style.break_on_hyphens);
        line.push_back(chunks[at].substr(0, cut));
        chunks[at].remove_prefix(cut);
      } else if (line.empty()) {
        line.push_back(chunks[at++]);
      }
    }
    if (!line.empty() && is_blank(line.back())) line.pop_back();
    if (line.empty()) continue;
    first = false;
    put(line);
  }
}

}  // namespace

std::string wrap_line(const std::string& line, const WrapStyle& style, const std::string& separator,
                      Budget& budget) {
  std::string out;
  bool first = true;
  budget.spend_items(line.size() / 8);  // four bytes for each character
  const std::u32string wide = to_utf32(line);
  fill_lines(LineCutter(wide, style.break_on_hyphens).chunks(budget), style,
             [&](const std::vector<Chunk>& chunks) {
               budget.spend_strings(1);
               budget.spend(separator.size());
               if (!std::exchange(first, false)) out += separator;
               for (const Chunk chunk : chunks)
                 for (const char32_t c : chunk) append_utf8(out, c);
               budget.check_size(out.size());
             });
  return out;
}

}  // namespace ingot::text::jinja
