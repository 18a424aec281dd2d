#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/grammar/expressions.h"

namespace ingot::grammar {

/// A set of Unicode characters: ranges in order, none touching another, no surrogates.
class CharSet {
 public:
  using Range = std::pair<char32_t, char32_t>;

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges);
  static CharSet of(char32_t c) { return {{c, c}}; }
  static CharSet all() { return CharSet().complement(); }

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  bool has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  /// The one character that it holds, or −1.
  std::int64_t single() const;
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

/// \d, \s and \w of ASCII; and whatever an engine that knows Unicode takes for those.
const CharSet& digits(bool unicode);
const CharSet& white_space(bool unicode);
const CharSet& word_characters(bool unicode);
/// By general category ("Lu", "L") or "Any"; false: there is no such one.
bool category(std::string_view name, CharSet& set);
/// With the ASCII letters in both cases.
CharSet ignoring_case(const CharSet& set);

/// One character of the set in UTF-8.
ExprId utf8(Expressions& to, const CharSet& set);
/// One character of the set as it stands in a string of JSON: quotes, backslashes and control characters are
/// escaped, all others stand for themselves.
ExprId json_char(Expressions& to, const CharSet& set);

}  // namespace ingot::grammar
