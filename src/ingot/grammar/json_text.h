#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ingot/grammar/expressions.h"

namespace ingot::grammar {

/// Expressions of pieces of JSON text.
class JsonText {
 public:
  /// `white_space`: a bounded number of spaces and line breaks may stand between the pieces.
  JsonText(Expressions& to, bool white_space);
  /// Gemma's spelling of JSON values: strings stand between `mark`, which they do not hold, without escapes;
  /// keys stand bare. No white space. `spelled`: the mark as the vocabulary has it.
  static JsonText between_marks(Expressions& to, std::string_view mark, std::string_view spelled);

  Expressions& expressions() { return to_; }
  ExprId space() const { return space_; }
  /// A character such as a comma, with space around it as people put it.
  ExprId mark(char c) const;
  ExprId opened(char c) const { return to_.concat(character(c), space_); }
  ExprId closed(char c) const { return to_.concat(space_, character(c)); }

  /// One character of a string, in any of its spellings.
  ExprId any_char() const { return any_char_; }
  /// One character in the spelling that patterns use (json_char, or as it is).
  ExprId plain_char() const { return plain_char_; }
  /// Whether strings have JSON's escapes.
  bool has_escapes() const { return has_escapes_; }
  /// Content between quotes.
  ExprId quoted(ExprId content) const;
  /// The key of an object that has this content.
  ExprId key(ExprId content) const;
  ExprId any_string() const { return quoted(to_.star(any_char_)); }
  /// The content of a string that means exactly this text, in any of its usual spellings.
  ExprId content_of(std::string_view text) const;
  ExprId integer() const;
  ExprId number() const;
  /// The value itself.
  ExprId value(const nlohmann::ordered_json& value) const;

 private:
  ExprId character(char c) const { return to_.bytes(ByteSet::of(static_cast<unsigned char>(c))); }
  Expressions& to_;
  ExprId space_ = Expressions::kEmpty, any_char_ = 0, plain_char_ = 0, quote_ = 0;
  bool has_escapes_ = true;
  ExprId good_content_ = 0, bare_key_ = 0;  // where strings have no escapes
};

/// A bound of numbers as decimal digits: −12.5 is {true, "12", "5"}.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;  ///< no zeros in front, none behind; zero is "0"
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  /// Nothing for numbers of more than 19 digits before the point.
  static std::optional<Decimal> of(const nlohmann::ordered_json& number);
};

/// Numbers written without exponent, with at most so many digits behind the point (0: integers).
ExprId plain_numbers(Expressions& to, std::uint32_t digits);
/// Of those, the ones that are at least, or at most, a bound; `strict`: and not equal to it.
ExprId at_least(Expressions& to, const Decimal& bound, bool strict);
ExprId at_most(Expressions& to, const Decimal& bound, bool strict);

/// The strings (not as JSON) of a "format" of JSON Schema; nothing for formats that are not known. `chars`:
/// as in compile_pattern.
std::optional<ExprId> string_format(Expressions& to, std::string_view format, bool json_string);

}  // namespace ingot::grammar
