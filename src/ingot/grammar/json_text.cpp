#include "ingot/grammar/json_text.h"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/utf8.h"
#include "ingot/grammar/char_set.h"

namespace ingot::grammar {
namespace {

constexpr std::uint32_t kMostIndent = 96, kMostDigits = 19, kMostFraction = 15, kMostExponentDigits = 2;

ExprId one_byte(Expressions& to, char first, char last) {
  return to.bytes(ByteSet::range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)));
}

ExprId letters(Expressions& to, std::string_view each) {
  ByteSet set;
  for (const char c : each) set.add(static_cast<unsigned char>(c));
  return to.bytes(set);
}

// \uXXXX of one unit of UTF-16, in either case.
ExprId unicode_escape(Expressions& to, std::uint32_t unit) {
  std::vector<ExprId> parts{to.literal("\\u")};
  for (int shift = 12; shift >= 0; shift -= 4) {
    const std::uint32_t digit = (unit >> static_cast<unsigned>(shift)) & 15U;
    const std::array both{"0123456789abcdef"[digit], "0123456789ABCDEF"[digit]};
    parts.push_back(letters(to, {both.data(), 2}));
  }
  return to.concat(parts);
}

// \uXXXX of any character: a unit that is not a surrogate, or a pair of them.
ExprId any_unicode_escape(Expressions& to) {
  const ExprId hex = letters(to, "0123456789abcdefABCDEF"), no_d = letters(to, "0123456789abcefABCEF");
  const ExprId d = letters(to, "dD"), u = to.literal("\\u");
  const auto digits = [&](std::uint32_t count) { return to.repeat(hex, count, count); };
  const ExprId single =
      to.either(to.concat(no_d, digits(3)), to.concat(std::vector{d, letters(to, "01234567"), digits(2)}));
  const ExprId pair =
      to.concat(std::vector{d, letters(to, "89abAB"), digits(2), u, d, letters(to, "cdefCDEF"), digits(2)});
  return to.concat(u, to.either(single, pair));
}

}  // namespace

JsonText::JsonText(Expressions& to, bool white_space) : to_(to) {
  if (white_space) {
    const ExprId line = to_.concat(to_.optional(character('\r')), character('\n'));
    const ExprId indented =
        to_.concat(to_.repeat(line, 1, 2), to_.repeat(letters(to_, " \t"), 0, kMostIndent));
    space_ = to_.either(to_.optional(character(' ')), indented);
  }
  CharSet raw = CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement();
  const ExprId escape =
      to_.either(to_.concat(character('\\'), letters(to_, "\"\\/bfnrt")), any_unicode_escape(to_));
  any_char_ = to_.either(utf8(to_, raw), escape);
  plain_char_ = json_char(to_, CharSet::all());
  quote_ = character('"');
}

JsonText JsonText::between_marks(Expressions& to, std::string_view mark, std::string_view spelled) {
  JsonText text(to, false);
  text.has_escapes_ = false;
  text.any_char_ = text.plain_char_ = utf8(to, CharSet::all());
  text.quote_ = to.literal(spelled);
  const ExprId any = to.star(text.any_char_);
  text.good_content_ = to.no(to.concat(std::vector{any, to.literal(mark), any}));
  CharSet other = white_space(true);  // what ends a bare key
  for (const char c : std::string_view(":,{}[]<>|\"")) other.add(CharSet::of(static_cast<char32_t>(c)));
  other.add(0, ' ');
  text.bare_key_ = to.repeat(utf8(to, other.complement()), 1, Expressions::kMany);
  return text;
}

ExprId JsonText::mark(char c) const { return to_.concat(std::vector{space_, character(c), space_}); }

ExprId JsonText::quoted(ExprId content) const {
  if (!has_escapes_) content = to_.both(content, good_content_);
  return to_.concat(std::vector{quote_, content, quote_});
}

ExprId JsonText::key(ExprId content) const {
  if (has_escapes_) return quoted(content);
  return to_.either(to_.both(content, bare_key_), quoted(to_.both(content, to_.no(bare_key_))));
}

ExprId JsonText::content_of(std::string_view text) const {
  if (!has_escapes_) return to_.literal(text);
  std::vector<ExprId> parts;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_utf8(text, at);
    ExprId part = json_char(to_, CharSet::of(c));
    if (c == '/') part = to_.either(part, to_.literal("\\/"));
    if (c > 0x7F && c <= 0xFFFF) part = to_.either(part, unicode_escape(to_, c));
    if (c > 0xFFFF) {
      part = to_.either(part, to_.concat(unicode_escape(to_, 0xD800 + ((c - 0x10000) >> 10U)),
                                         unicode_escape(to_, 0xDC00 + ((c - 0x10000) & 0x3FFU))));
    }
    parts.push_back(part);
  }
  return to_.concat(parts);
}

ExprId JsonText::integer() const { return plain_numbers(to_, 0); }

ExprId JsonText::number() const {
  const ExprId digit = one_byte(to_, '0', '9');
  const ExprId exponent = to_.concat(std::vector{letters(to_, "eE"), to_.optional(letters(to_, "+-")),
                                                 to_.repeat(digit, 1, kMostExponentDigits)});
  return to_.concat(plain_numbers(to_, kMostFraction), to_.optional(exponent));
}

ExprId JsonText::value(const nlohmann::ordered_json& value) const {
  if (value.is_string()) return quoted(content_of(value.get_ref<const std::string&>()));
  if (!value.is_structured()) return to_.literal(dump_json(value));
  const bool object = value.is_object();
  if (value.empty()) return to_.concat(opened(object ? '{' : '['), character(object ? '}' : ']'));
  std::vector<ExprId> parts{opened(object ? '{' : '[')};
  bool first = true;
  for (const auto& [key, inner] : value.items()) {
    if (!first) parts.push_back(mark(','));
    first = false;
    if (object) {
      parts.push_back(this->key(content_of(key)));
      parts.push_back(mark(':'));
    }
    parts.push_back(this->value(inner));
  }
  parts.push_back(closed(object ? '}' : ']'));
  return to_.concat(parts);
}

std::optional<Decimal> Decimal::of(const nlohmann::ordered_json& number) {
  std::string text = dump_json(number);
  Decimal result;
  if (text.starts_with('-')) {
    result.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != text.npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  result.whole = text.substr(0, point);
  if (point < text.size()) result.fraction = text.substr(point + 1);
  if (exponent > 30 || exponent < -30) return std::nullopt;
  for (; exponent > 0; --exponent) {
    result.whole += result.fraction.empty() ? '0' : result.fraction.front();
    if (!result.fraction.empty()) result.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    result.fraction.insert(result.fraction.begin(), result.whole.empty() ? '0' : result.whole.back());
    if (!result.whole.empty()) result.whole.pop_back();
  }
  result.whole.erase(0, result.whole.find_first_not_of('0'));
  if (result.whole.empty()) result.whole.push_back('0');
  while (result.fraction.ends_with('0')) result.fraction.pop_back();
  if (result.whole.size() > kMostDigits) return std::nullopt;
  if (result.is_zero()) result.negative = false;
  return result;
}

ExprId plain_numbers(Expressions& to, std::uint32_t digits) {
  const ExprId digit = one_byte(to, '0', '9');
  const ExprId whole =
      to.either(to.literal("0"), to.concat(one_byte(to, '1', '9'), to.repeat(digit, 0, kMostDigits - 1)));
  const ExprId fraction = to.concat(to.literal("."), to.repeat(digit, 1, digits));
  return to.concat(std::vector{to.optional(to.literal("-")), whole,
                               digits > 0 ? to.optional(fraction) : Expressions::kEmpty});
}

namespace {

// Of digits without sign, with any fraction: those beyond the bound on one side, or equal to it.
class Beyond {
 public:
  Beyond(Expressions& to, bool above) : to_(to), above_(above) {}

  ExprId numbers(const Decimal& bound) {
    std::vector<ExprId> choices;
    const std::string& whole = bound.whole;
    const auto length = static_cast<std::uint32_t>(whole.size());
    const ExprId any_fraction = to_.optional(to_.concat(point_, to_.repeat(digit_, 1, Expressions::kMany)));
    const ExprId lead = one_byte(to_, '1', '9');
    if (above_) {  // more digits
      choices.push_back(
          to_.concat(std::vector{lead, to_.repeat(digit_, length, Expressions::kMany), any_fraction}));
    } else if (length > 1) {  // fewer
      choices.push_back(to_.concat(
          to_.either(to_.literal("0"), to_.concat(lead, to_.repeat(digit_, 0, length - 2))), any_fraction));
    }
    for (std::uint32_t i = 0; i < length; ++i) {
      const ExprId other = other_digit(whole[i], i == 0 && length > 1 ? '1' : '0');
      choices.push_back(
          to_.concat(std::vector{to_.literal(std::string_view(whole).substr(0, i)), other,
                                 to_.repeat(digit_, length - i - 1, length - i - 1), any_fraction}));
    }
    choices.push_back(to_.concat(to_.literal(whole), fraction(bound.fraction)));
    return to_.either(std::move(choices));
  }
  ExprId equal(const Decimal& bound) {
    const ExprId zeros = to_.star(to_.literal("0"));
    if (bound.fraction.empty())
      return to_.concat(to_.literal(bound.whole), to_.optional(to_.concat(point_, zeros)));
    return to_.concat(to_.literal(bound.whole + "." + bound.fraction), zeros);
  }

 private:
  // Digits that decide.
  ExprId other_digit(char than, char lowest) {
    if (above_) return than == '9' ? Expressions::kNothing : one_byte(to_, static_cast<char>(than + 1), '9');
    return than <= lowest ? Expressions::kNothing : one_byte(to_, lowest, static_cast<char>(than - 1));
  }
  ExprId fraction(const std::string& bound) {
    std::vector<ExprId> choices;
    const ExprId any = to_.star(digit_);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      choices.push_back(to_.concat(std::vector{point_, to_.literal(std::string_view(bound).substr(0, i)),
                                               other_digit(bound[i], '0'), any}));
      // Fewer digits are a smaller number.
      if (!above_ && i > 0)
        choices.push_back(to_.concat(point_, to_.literal(std::string_view(bound).substr(0, i))));
    }
    const ExprId zeros = to_.star(to_.literal("0"));
    choices.push_back(to_.concat(std::vector{point_, to_.literal(bound), above_ ? any : zeros}));
    if (bound.empty() || !above_) choices.push_back(Expressions::kEmpty);
    return to_.either(std::move(choices));
  }

  Expressions& to_;
  const bool above_;
  const ExprId digit_ = one_byte(to_, '0', '9'), point_ = to_.literal(".");
};

ExprId on_one_side(Expressions& to, const Decimal& bound, bool above, bool strict) {
  const ExprId minus = to.literal("-"), rest = to.star(letters(to, "0123456789."));
  // Negative numbers are ordered the other way round.
  Beyond beyond(to, bound.negative ? !above : above);
  ExprId numbers = beyond.numbers(bound);
  if (strict) numbers = to.both(numbers, to.no(beyond.equal(bound)));
  if (bound.negative) numbers = to.concat(minus, numbers);
  if (above && bound.negative) return to.either(numbers, rest);
  if (!above && !bound.negative) return to.either(numbers, to.concat(minus, rest));
  return numbers;
}

}  // namespace

ExprId at_least(Expressions& to, const Decimal& bound, bool strict) {
  return on_one_side(to, bound, true, strict);
}

ExprId at_most(Expressions& to, const Decimal& bound, bool strict) {
  return on_one_side(to, bound, false, strict);
}

}  // namespace ingot::grammar
