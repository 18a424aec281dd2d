#include "ingot/text/regex_dialect.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/text/unicode_tables.h"

namespace ingot::text {

namespace {

/// Unicode White_Space, as a class body. PCRE2's own \s also takes U+180E, which left that property in
/// Unicode 6.3 and which Oniguruma therefore does not match.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Oniguruma's \w: letters, marks, decimal digits, letter numbers, connectors, alphabetic symbols and six
/// Latin-1 numbers. PCRE2's has no marks.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
    R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

/// The characters of a general category that PCRE2 does not know yet, as a class body.
std::string newer_in(std::string_view category) {
  using N = NewerCharacters;
  const auto belongs = [&](N::Kind kind) {
    if (category == "L") return kind <= N::lo;
    if (category == "N") return kind == N::nd || kind == N::number;
    if (category == "M") return kind == N::mark;
    if (category == "P") return kind == N::punctuation;
    if (category == "S") return kind == N::symbol;
    if (category == "Lu") return kind == N::lu;
    if (category == "Ll") return kind == N::ll;
    if (category == "Lm") return kind == N::lm;
    if (category == "Lo") return kind == N::lo;
    if (category == "Nd") return kind == N::nd;
    return false;
  };
  std::string out;
  for (const N& range : newer_characters())
    if (belongs(range.kind))
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(range.first),
                         static_cast<unsigned>(range.last));
  if (category == "Han") out = R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
  return out;
}

class Translator {
 public:
  Translator(std::string_view pattern, bool newer, const std::string& where)
      : pattern_(pattern), newer_(newer), where_(where) {}

  std::string run() {
    while (i_ < pattern_.size()) {
      const char c = pattern_[i_++];
      if (c == '\\' && i_ < pattern_.size()) {
        escape(pattern_[i_++]);
      } else if (c == '[') {
        out_ += character_class();
      } else {
        out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  /// What stands between two && of a class, or the whole of it.
  struct Operand {
    std::string body;  ///< characters, ranges and properties
    std::vector<std::string> nested;

    std::string one_of() const {
      std::vector<std::string> all = nested;
      if (!body.empty()) all.insert(all.begin(), "[" + body + "]");
      if (all.empty()) return "(?!)";
      return all.size() == 1 ? all.front() : fmt::format("(?:{})", fmt::join(all, "|"));
    }
  };

  /// A class whose "[" has been read, as something that matches one character. PCRE2 knows neither classes in
  /// a class nor intersections; looking ahead says the same.
  std::string character_class() {
    const bool negated = next_is('^');
    i_ += negated ? 1 : 0;
    std::vector<Operand> operands(1);
    for (bool first = true; i_ < pattern_.size() && (first || pattern_[i_] != ']'); first = false)
      class_item(operands);
    if (i_ == pattern_.size()) return negated ? "[^" : "[";  // does not end: PCRE2 says so
    ++i_;
    if (operands.size() == 1 && operands[0].nested.empty())
      return fmt::format("[{}{}]", negated ? "^" : "", operands[0].body);
    std::string all;
    for (std::size_t k = 0; k + 1 < operands.size(); ++k) all += fmt::format("(?={})", operands[k].one_of());
    all += operands.back().one_of();
    return negated ? fmt::format("(?:(?!{})(?s:.))", all) : fmt::format("(?:{})", all);
  }

  void class_item(std::vector<Operand>& operands) {
    Operand& operand = operands.back();
    const std::string_view rest = pattern_.substr(i_);
    if (rest.starts_with("&&")) {
      i_ += 2;
      operands.emplace_back();
    } else if (rest.starts_with("[:") && rest.find(":]") != std::string_view::npos) {
      const std::size_t length = rest.find(":]") + 2;
      operand.body += rest.substr(0, length);
      i_ += length;
    } else if (rest.starts_with("[")) {
      ++i_;
      operand.nested.push_back(character_class());
    } else {
      refuse_difference(rest);
      plain_item(operand.body);
    }
  }

  // A character or an escape.
  void plain_item(std::string& body) {
    const char c = pattern_[i_++];
    if (c != '\\' || i_ == pattern_.size()) {
      body += c;
      return;
    }
    std::swap(out_, body);
    in_class_ = true;
    escape(pattern_[i_++]);
    in_class_ = false;
    std::swap(out_, body);
  }

  // "--" between sets, as other dialects have it; between characters it is a range.
  void refuse_difference(std::string_view rest) const {
    if (!rest.starts_with("--")) return;
    const bool behind_set = i_ > 0 && (pattern_[i_ - 1] == '}' || pattern_[i_ - 1] == ']');
    const bool before_set = rest.substr(2).starts_with("[") || rest.substr(2).starts_with("\\p");
    INGOT_CHECK(!behind_set && !before_set,
                InvalidConfig(where_, fmt::format("the pattern \"{}\" has a set difference (--), which the "
                                                  "tokenizers library does not know; write [A&&[^B]]",
                                                  pattern_)));
  }

  bool next_is(char c) const { return i_ < pattern_.size() && pattern_[i_] == c; }

  void put_class(std::string_view body, bool negated) {
    if (!in_class_)
      out_ += fmt::format("[{}{}]", negated ? "^" : "", body);
    else
      out_ += body;
  }

  void escape(char c) {
    const std::string newer_words = newer_ ? newer_in("L") + newer_in("M") + newer_in("Nd") : "";
    const bool may_negate = !in_class_;  // a negated class inside a class cannot be written out
    if (c == 's' || (c == 'S' && may_negate)) return put_class(kSpaces, c == 'S');
    if (c == 'w' || (c == 'W' && may_negate)) return put_class(std::string(kWord) + newer_words, c == 'W');
    if (c == 'd' || (c == 'D' && may_negate))
      return put_class(R"(\p{Nd})" + (newer_ ? newer_in("Nd") : ""), c == 'D');
    if (c == 'h' || (c == 'H' && may_negate)) return put_class("0-9a-fA-F", c == 'H');  // a hexadecimal digit
    if ((c == 'p' || c == 'P') && i_ < pattern_.size() && pattern_[i_] == '{') {
      const std::size_t end = pattern_.find('}', i_);
      if (end != std::string_view::npos) return property(c, end);
    }
    out_.append({'\\', c});
  }

  void property(char c, std::size_t end) {
    std::string_view name = pattern_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    bool negated = c == 'P';
    if (name.starts_with('^')) {
      name.remove_prefix(1);
      negated = !negated;
    }
    // What is longer than a general category is a script; PCRE2 would take the script extensions too.
    const bool script = name.size() > 2 && name.find_first_of(":=_&") == std::string_view::npos;
    const std::string body =
        fmt::format("{}{{{}{}}}", negated && in_class_ ? "\\P" : "\\p", script ? "sc:" : "", name);
    const std::string newer = newer_ && !(negated && in_class_) ? newer_in(name) : "";
    if (!in_class_ && newer.empty())
      out_ += fmt::format("{}{{{}{}}}", negated ? "\\P" : "\\p", script ? "sc:" : "", name);
    else
      put_class(body + newer, negated);
  }

  std::string_view pattern_;
  bool newer_;
  const std::string& where_;
  std::size_t i_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, bool newer, const std::string& where) {
  return Translator(pattern, newer, where).run();
}

}  // namespace ingot::text
