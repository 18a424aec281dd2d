#include "ingot/grammar/pattern.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/grammar/char_set.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostPatternBytes = 65'536;
constexpr std::uint32_t kMostRepeats = 100'000;
constexpr int kMostNesting = 200;

// One way to match, with whether it has to begin where the text does, and end there.
struct Alternative {
  ExprId expr = Expressions::kEmpty;
  bool begins = false, ends = false;
};
using Alternatives = std::vector<Alternative>;

class PatternParser {
 public:
  PatternParser(Expressions& to, std::string_view pattern, const PatternOptions& options,
                const std::string& where)
      : to_(to), text_(pattern), options_(options), where_(where) {
    if (!is_valid_utf8(pattern)) fail("is not UTF-8");
    if (pattern.size() > kMostPatternBytes) fail(fmt::format("is longer than {} bytes", kMostPatternBytes));
    any_ = to_.star(one(CharSet::all()));
  }

  ExprId parse() {
    const Alternatives found = alternatives(0);
    if (at_ < text_.size()) fail("has a ) without its (");
    std::vector<ExprId> choices;
    for (const Alternative& each : found) choices.push_back(whole(each));
    return to_.either(std::move(choices));
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidConfig(where_, fmt::format("{}, at byte {} of the pattern '{}'", problem, at_,
                                            text_.size() > 80 ? std::string(text_.substr(0, 80)) + "..."
                                                              : std::string(text_)));
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  ExprId one(const CharSet& set) {
    const CharSet& cased = ignore_case_ ? ignoring_case(set) : set;
    return options_.json_string ? json_char(to_, cased) : utf8(to_, cased);
  }
  // The expression of a text that the alternative matches.
  ExprId whole(const Alternative& each) {
    if (!options_.search) return each.expr;
    return to_.concat(std::vector{each.begins ? Expressions::kEmpty : any_, each.expr,
                                  each.ends ? Expressions::kEmpty : any_});
  }

  Alternatives alternatives(int depth) {
    if (depth > kMostNesting) fail(fmt::format("nests deeper than {} groups", kMostNesting));
    const bool cased = ignore_case_;
    Alternatives all;
    do {
      for (const Alternative& each : sequence(depth)) all.push_back(each);
    } while (take("|"));
    ignore_case_ = cased;
    return simplified(all);
  }
  // Those with the same anchors together.
  Alternatives simplified(const Alternatives& all) {
    Alternatives few;
    for (const bool begins : {false, true}) {
      for (const bool ends : {false, true}) {
        std::vector<ExprId> choices;
        for (const Alternative& each : all)
          if (each.begins == begins && each.ends == ends) choices.push_back(each.expr);
        if (!choices.empty()) few.push_back({to_.either(std::move(choices)), begins, ends});
      }
    }
    return few;
  }

  Alternatives sequence(int depth) {
    std::vector<Alternatives> parts;
    while (at_ < text_.size() && peek() != '|' && peek() != ')') {
      if (text_.substr(at_).starts_with("(?=") || text_.substr(at_).starts_with("(?!")) {
        parts.push_back(behind_look_ahead(depth));
        break;
      }
      parts.push_back(quantified(element(depth)));
    }
    // From the last on: what is in front of a long sequence is put there at once.
    Alternatives made{{}};
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) made = joined(*part, made);
    return made;
  }

  // What is behind a look-ahead matches that, too.
  Alternatives behind_look_ahead(int depth) {
    if (depth > 0) fail("has a look-ahead within a group, which is not supported");
    const bool refuses = text_[at_ + 2] == '!';
    at_ += 3;
    std::vector<ExprId> ahead;
    for (const Alternative& each : alternatives(depth + 1)) {
      if (each.begins) fail("has a look-ahead with ^, which is not supported");
      ahead.push_back(each.ends ? each.expr : to_.concat(each.expr, any_));
    }
    if (!take(")")) fail("has a ( without its )");
    const ExprId wanted = to_.either(std::move(ahead));
    std::vector<ExprId> rest;
    for (const Alternative& each : sequence(depth)) {
      if (each.begins) fail("has ^ behind a look-ahead, which is not supported: write it in front");
      rest.push_back(each.ends || !options_.search ? each.expr : to_.concat(each.expr, any_));
    }
    const ExprId condition = refuses ? to_.both(to_.no(wanted), any_) : wanted;
    return {{to_.both(to_.either(std::move(rest)), condition), false, true}};
  }

  // One behind the other. What is in front of ^ and behind $ can only be empty.
  Alternatives joined(const Alternatives& first, const Alternatives& then) {
    Alternatives made;
    for (const Alternative& a : first) {
      for (const Alternative& b : then) {
        if ((b.begins && a.expr != Expressions::kEmpty) || (a.ends && b.expr != Expressions::kEmpty)) {
          const bool may_be_empty = (b.begins && to_.nullable(a.expr)) || (a.ends && to_.nullable(b.expr));
          if (may_be_empty) fail("has an anchor beside what may be empty, which is not supported");
          continue;
        }
        made.push_back({to_.concat(a.expr, b.expr), a.begins || b.begins, a.ends || b.ends});
      }
    }
    if (made.empty()) made.push_back({Expressions::kNothing});
    return made.size() > 1 ? simplified(made) : made;
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> quantifier() {
    if (take("*")) return std::pair{0U, Expressions::kMany};
    if (take("+")) return std::pair{1U, Expressions::kMany};
    if (take("?")) return std::pair{0U, 1U};
    const std::size_t begin = at_;
    if (take("{")) {
      const auto least = number();
      auto most = least;
      if (take(",")) most = peek() == '}' ? std::optional(Expressions::kMany) : number();
      if ((least || most) && take("}")) {
        const std::pair range{least.value_or(0), most.value_or(Expressions::kMany)};
        if (range.first > range.second) fail("has a quantifier whose bounds are the wrong way round");
        return range;
      }
      at_ = begin;  // a brace
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> number() {
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
      if (value > kMostRepeats) fail(fmt::format("repeats more than {} times", kMostRepeats));
    }
    return at_ > begin ? std::optional(value) : std::nullopt;
  }

  Alternatives quantified(Alternatives inner) {
    while (const auto range = quantifier()) {
      if (take("+")) fail("has a possessive quantifier, which is not supported");
      take("?");  // lazy: the same texts
      if (inner.size() != 1 || inner.front().begins || inner.front().ends)
        fail("repeats a group with an anchor, which is not supported");
      inner.front().expr = to_.repeat(inner.front().expr, range->first, range->second);
    }
    return inner;
  }

  Alternatives element(int depth) {
    if (take("^")) return {{.begins = true}};
    if (take("$")) return {{.ends = true}};
    if (take("(")) return group(depth);
    if (take("[")) return {{one(char_class())}};
    if (take(".")) return {{one(CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement())}};
    if (take("\\")) return escaped();
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("has a quantifier with nothing to repeat");
    return {{one(CharSet::of(decode_utf8(text_, at_)))}};
  }

  Alternatives group(int depth) {
    const bool cased = ignore_case_;
    if (take("?")) {
      if (take("P<") || (text_.substr(at_).starts_with("<") && peek_is_name())) {
        const std::size_t end = text_.find('>', at_);
        if (end == text_.npos) fail("has a group whose name does not end");
        at_ = end + 1;
      } else if (take("i)")) {
        ignore_case_ = true;
        return {{}};
      } else if (take("i:")) {
        ignore_case_ = true;
      } else if (!take(":")) {
        fail("has a group of a kind that is not supported: (?:...), (?<name>...) and (?i:...) are");
      }
    }
    Alternatives inner = alternatives(depth + 1);
    ignore_case_ = cased;
    if (!take(")")) fail("has a ( without its )");
    return inner;
  }
  bool peek_is_name() const {
    return at_ + 1 < text_.size() && text_[at_ + 1] != '=' && text_[at_ + 1] != '!';
  }

  // Of \d, \s, \w, \p and their complements.
  std::optional<CharSet> named_set() {
    const char c = peek();
    const auto set_of = [](char letter, bool unicode) -> const CharSet& {
      return letter == 'd'   ? digits(unicode)
             : letter == 's' ? white_space(unicode)
                             : word_characters(unicode);
    };
    if (c == 'd' || c == 's' || c == 'w') {
      ++at_;
      return set_of(c, false);
    }
    if (c == 'D' || c == 'S' || c == 'W') {
      ++at_;
      return set_of(static_cast<char>(c - 'A' + 'a'), true).complement();
    }
    if (c != 'p' && c != 'P') return std::nullopt;
    ++at_;
    const std::size_t end = take("{") ? text_.find('}', at_) : at_ + 1;
    if (end > text_.size()) fail("has a \\p that does not end");
    std::string_view name = text_.substr(at_, end - at_);
    for (const std::string_view prefix : {"General_Category=", "gc="})
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    constexpr std::pair<std::string_view, std::string_view> kLong[] = {{"Letter", "L"},
                                                                       {"Number", "N"},
                                                                       {"Punctuation", "P"},
                                                                       {"Symbol", "S"},
                                                                       {"Uppercase_Letter", "Lu"},
                                                                       {"Lowercase_Letter", "Ll"},
                                                                       {"Mark", "M"},
                                                                       {"Separator", "Z"},
                                                                       {"Alphabetic", "L"}};
    for (const auto& [word, letters] : kLong)
      if (name == word) name = letters;
    CharSet set;
    if (!category(name, set)) fail(fmt::format("has \\p{{{}}}, which is not supported", name));
    at_ = end < text_.size() && text_[end] == '}' ? end + 1 : end;
    return c == 'p' ? set : set.complement();
  }

  std::optional<char32_t> hex(std::size_t count) {
    char32_t value = 0;
    if (at_ + count > text_.size()) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = text_[at_ + i];
      const int digit = c >= '0' && c <= '9'                 ? c - '0'
                        : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                             : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    at_ += count;
    return value;
  }

  // Behind the backslash.
  char32_t escaped_char() {
    constexpr std::string_view kLetters = "nrtfv0a", kMeant("\n\r\t\f\v\0\a", 7);
    if (at_ >= text_.size()) fail("ends in a backslash");
    const char32_t c = decode_utf8(text_, at_);
    if (c < 128 && kLetters.find(static_cast<char>(c)) != kLetters.npos)
      return static_cast<unsigned char>(kMeant[kLetters.find(static_cast<char>(c))]);
    if (c == 'x' || c == 'u') {
      if (c == 'u' && take("{")) {
        std::size_t length = 0;
        while (at_ + length < text_.size() && text_[at_ + length] != '}') ++length;
        const auto value = length <= 6 ? hex(length) : std::nullopt;
        if (!value || !take("}")) fail("has a \\u{...} that is not hexadecimal");
        return *value;
      }
      auto value = hex(c == 'x' ? 2 : 4);
      if (!value) fail("has an escape that is not hexadecimal");
      if (*value >= 0xD800 && *value < 0xDC00 && take("\\u")) {
        const auto low = hex(4);
        if (!low || *low < 0xDC00 || *low > 0xDFFF) fail("has half a surrogate pair");
        value = 0x10000 + ((*value - 0xD800) << 10U) + (*low - 0xDC00);
      }
      return *value;
    }
    if (c == 'c' && ((peek() | 32) >= 'a' && (peek() | 32) <= 'z'))
      return static_cast<char32_t>(text_[at_++]) % 32;
    if (c < 128 && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) {
      --at_;
      fail(fmt::format("has \\{}, which is not supported", static_cast<char>(c)));
    }
    return c;
  }

  Alternatives escaped() {
    if (take("A")) return {{.begins = true}};
    if (take("Z") || take("z")) return {{.ends = true}};
    if (const auto set = named_set()) return {{one(*set)}};
    return {{one(CharSet::of(escaped_char()))}};
  }

  CharSet char_class() {
    const bool negated = take("^");
    CharSet narrow, wide;  // wide: for a complement, whatever any engine takes for \d, \s, \w
    while (!take("]")) {
      if (at_ >= text_.size()) fail("has a [ without its ]");
      const char named = peek() == '\\' && at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (take("\\")) {
        if (const auto set = named_set()) {
          narrow.add(*set);
          wide.add(named == 'd'   ? digits(true)
                   : named == 's' ? white_space(true)
                   : named == 'w' ? word_characters(true)
                                  : *set);
          continue;
        }
        --at_;
      }
      const char32_t low = class_char();
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        const std::size_t dash = at_++;
        if (peek() == '\\' && at_ + 1 < text_.size() &&
            std::string_view("dswDSWpP").find(text_[at_ + 1]) != std::string_view::npos) {
          at_ = dash;  // "a-\d": a dash
        } else {
          high = class_char();
          if (high < low) fail("has a range of characters the wrong way round");
        }
      }
      narrow.add(low, high);
      wide.add(low, high);
    }
    if (ignore_case_) {
      narrow = ignoring_case(narrow);
      wide = ignoring_case(wide);
    }
    return negated ? wide.complement() : narrow;
  }
  char32_t class_char() {
    if (!take("\\")) return decode_utf8(text_, at_);
    if (take("b")) return '\b';
    return escaped_char();
  }

  Expressions& to_;
  const std::string_view text_;
  const PatternOptions options_;
  const std::string& where_;
  std::size_t at_ = 0;
  bool ignore_case_ = false;
  ExprId any_ = Expressions::kNothing;
};

}  // namespace

ExprId compile_pattern(Expressions& to, std::string_view pattern, const PatternOptions& options,
                       const std::string& where) {
  return PatternParser(to, pattern, options, where).parse();
}

}  // namespace ingot::grammar
