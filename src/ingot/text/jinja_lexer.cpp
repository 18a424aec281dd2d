#include "ingot/text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "ingot/base/printable.h"
#include "ingot/base/utf8.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t open = find_open(at_);
      data(source_.substr(at_, open - at_), open);
      if (open == source_.size()) break;
      const char kind = source_[open + 1];
      advance(open + 2);
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) advance(at_ + 1);
      if (kind == '#')
        comment();
      else if (kind == '%' && raw())
        continue;
      else
        code(kind == '%');
    }
    put(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { throw TemplateError(line_, problem); }

  void put(Token::Kind kind, std::string text, Value value = {}) {
    tokens_.push_back({kind, std::move(text), std::move(value), line_});
  }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  std::size_t find_open(std::size_t from) const {
    for (std::size_t i = from; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return source_.size();
  }

  /// Text up to `open`, with the white space that the tag there takes away.
  void data(std::string_view text, std::size_t open) {
    const std::size_t whole = text.size();
    if (open < source_.size()) {
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (sign == '-') {
        while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
      } else if (sign != '+' && kind != '{') {
        const std::size_t line = text.rfind('\n') + 1;  // 0 when there is no new line
        if ((line > 0 || line_starts_) &&
            std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), is_space))
          text = text.substr(0, line);
      }
    }
    if (!text.empty()) put(Token::Kind::text, std::string(text));
    if (whole > 0) line_starts_ = source_[at_ + whole - 1] == '\n';
    advance(at_ + whole);
  }

  /// Moves past a closing tag and the white space that it takes away.
  void close(std::size_t size, char sign, bool trim) {
    advance(at_ + size);
    line_starts_ = false;
    if (sign == '-') {
      std::size_t i = at_;
      while (i < source_.size() && is_space(source_[i])) ++i;
      line_starts_ = i > at_ && source_[i - 1] == '\n';
      advance(i);
    } else if (trim && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance(at_ + 1);
      line_starts_ = true;
    }
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail("a comment is not closed");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    advance(end);
    close(2, sign, true);
  }

  /// {% raw %} ... {% endraw %}; false when something else stands here.
  bool raw() {
    const auto skip_spaces = [&](std::size_t i) {
      while (i < source_.size() && is_space(source_[i])) ++i;
      return i;
    };
    std::size_t i = skip_spaces(at_);
    if (source_.substr(i, 3) != "raw") return false;
    i = skip_spaces(i + 3);
    const char begin_sign = i < source_.size() ? source_[i] : ' ';
    if (begin_sign == '-' || begin_sign == '+') ++i;
    if (source_.substr(i, 2) != "%}") return false;
    advance(i);
    close(2, begin_sign, true);
    for (std::size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 2)) {
      std::size_t k = open + 2;
      if (k < source_.size() && (source_[k] == '-' || source_[k] == '+')) ++k;
      k = skip_spaces(k);
      if (source_.substr(k, 6) != "endraw") continue;
      k = skip_spaces(k + 6);
      const char end_sign = k < source_.size() ? source_[k] : ' ';
      if (end_sign == '-' || end_sign == '+') ++k;
      if (source_.substr(k, 2) != "%}") continue;
      data(source_.substr(at_, open - at_), open);
      advance(k);
      close(2, end_sign, true);
      return true;
    }
    fail("a raw block is not closed");
  }

  void code(bool block) {
    put(block ? Token::Kind::block_begin : Token::Kind::output_begin, "");
    int open = 0;  // brackets
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) advance(at_ + 1);
      if (at_ >= source_.size()) fail(block ? "a {% tag is not closed" : "a {{ tag is not closed");
      const std::string_view rest = source_.substr(at_);
      const char sign = rest[0] == '-' || rest[0] == '+' ? rest[0] : ' ';
      if (open == 0 && rest.substr(sign == ' ' ? 0 : 1, 2) == (block ? "%}" : "}}")) {
        put(block ? Token::Kind::block_end : Token::Kind::output_end, "");
        close(sign == ' ' ? 2 : 3, sign, block);
        return;
      }
      const char c = rest[0];
      if (is_name_start(c))
        name(rest);
      else if (is_digit(c))
        number(rest);
      else if (c == '"' || c == '\'')
        string(c);
      else
        op(rest, open);
    }
  }

  void name(std::string_view rest) {
    std::size_t n = 1;
    while (n < rest.size() && (is_name_start(rest[n]) || is_digit(rest[n]))) ++n;
    if (n > kLongestName) fail(fmt::format("a name has {} bytes; at most {} are read", n, kLongestName));
    put(Token::Kind::name, std::string(rest.substr(0, n)));
    advance(at_ + n);
  }

  void number(std::string_view rest) {
    std::size_t n = 0;
    bool real = false;
    std::string digits;
    const auto take_digits = [&] {
      for (; n < rest.size() && (is_digit(rest[n]) || rest[n] == '_'); ++n)
        if (rest[n] != '_') digits += rest[n];
    };
    take_digits();
    if (n + 1 < rest.size() && rest[n] == '.' && is_digit(rest[n + 1])) {
      real = true;
      digits += rest[n++];
      take_digits();
    }
    if (n + 1 < rest.size() && (rest[n] == 'e' || rest[n] == 'E') &&
        (is_digit(rest[n + 1]) || (n + 2 < rest.size() && is_digit(rest[n + 2])))) {
      real = true;
      digits.append(rest.substr(n, 2));
      n += 2;
      take_digits();
    }
    Value value;
    const char *begin = digits.data(), *end = begin + digits.size();
    if (real) {
      double v = 0;
      if (std::from_chars(begin, end, v).ec != std::errc())
        fail(fmt::format("the number {} is out of range", digits));
      value = v;
    } else {
      std::int64_t v = 0;
      if (std::from_chars(begin, end, v).ec != std::errc())
        fail(fmt::format("the number {} is out of range", digits));
      value = v;
    }
    put(Token::Kind::number, std::move(digits), std::move(value));
    advance(at_ + n);
  }

  std::uint32_t hex(std::size_t from, std::size_t digits) const {
    std::uint32_t value = 0;
    const char* begin = source_.data() + from;
    if (from + digits > source_.size()) fail("an escape is cut short");
    const auto [stop, error] = std::from_chars(begin, begin + digits, value, 16);
    if (error != std::errc() || stop != begin + digits) fail("an escape has no hexadecimal digits");
    return value;
  }

  void string(char quote) {
    std::string out;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        out += source_[i];
        continue;
      }
      if (++i >= source_.size()) break;
      const char c = source_[i];
      constexpr std::string_view kFrom = "ntrabfv\\'\"", kTo = "\n\t\r\a\b\f\v\\'\"";
      if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
        out += kTo[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        std::uint32_t point = hex(i + 1, digits);
        i += digits;
        if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) point = kReplacementCharacter;
        append_utf8(out, point);
      } else if (c >= '0' && c <= '7') {
        std::uint32_t point = 0;
        std::size_t n = 0;
        for (; n < 3 && i < source_.size() && source_[i] >= '0' && source_[i] <= '7'; ++n, ++i)
          point = point * 8 + static_cast<std::uint32_t>(source_[i] - '0');
        --i;
        append_utf8(out, point);
      } else if (c != '\n') {  // a backslash at the end of a line joins it with the next
        out += '\\';
        out += c;
      }
    }
    if (i >= source_.size()) fail("a string is not closed");
    Value value(out);
    put(Token::Kind::string, std::move(out), std::move(value));
    advance(i + 1);
  }

  void op(std::string_view rest, int& open) {
    constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view two : kTwo)
      if (rest.starts_with(two)) {
        put(Token::Kind::op, std::string(two));
        return advance(at_ + 2);
      }
    const char c = rest[0];
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos)
      fail(fmt::format("unexpected character '{}'", printable(rest.substr(0, utf8_length(c)))));
    if (c == '(' || c == '[' || c == '{') ++open;
    if (c == ')' || c == ']' || c == '}') --open;
    put(Token::Kind::op, std::string(1, c));
    advance(at_ + 1);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;  // parsed, a template takes up to 200 times its size
  INGOT_CHECK(source.size() <= kLongest,
              TemplateError(
                  0, fmt::format("the template has {} bytes; at most {} are read", source.size(), kLongest)));
  INGOT_CHECK(is_valid_utf8(source), TemplateError(0, "the template is not UTF-8"));
  std::string text;  // new lines as Jinja sees them, without the one at the end
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return Lexer(text).run();
}

}  // namespace ingot::text::jinja
