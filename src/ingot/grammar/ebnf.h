#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/grammar/char_set.h"
#include "ingot/grammar/program.h"

namespace ingot::grammar {

/// The right side of a rule, as grammar languages write it.
struct Ebnf {
  enum class Kind : std::uint8_t { terminal, rule, sequence, choice, repeat };
  Kind kind = Kind::sequence;
  ExprId expr = Expressions::kEmpty;  // of a terminal
  std::uint32_t rule = 0;             // index into the list of rules
  std::uint32_t least = 0, most = 0;  // of repeat
  std::vector<Ebnf> parts{};

  static Ebnf terminal(ExprId expr) { return {.kind = Kind::terminal, .expr = expr}; }
  static Ebnf reference(std::uint32_t rule) { return {.kind = Kind::rule, .rule = rule}; }
  static Ebnf list(Kind kind, std::vector<Ebnf> parts) {
    return parts.size() == 1 ? std::move(parts.front()) : Ebnf{.kind = kind, .parts = std::move(parts)};
  }
  static Ebnf repeat(Ebnf part, std::uint32_t least, std::uint32_t most) {
    return {.kind = Kind::repeat, .least = least, .most = most, .parts = {std::move(part)}};
  }
};

/// Reads a grammar's source; errors name line and column.
class SourceReader {
 public:
  /// `language`: in errors. Throws InvalidConfig where the source is not UTF-8, or too long.
  SourceReader(std::string_view source, std::string language);

  bool at_end() const { return at_ >= source_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return source_.substr(at_); }
  std::size_t position() const { return at_; }
  void go_to(std::size_t position) { at_ = position; }
  void skip(std::size_t bytes = 1) { at_ += bytes; }
  bool take(std::string_view word);
  char32_t character();
  std::uint32_t number();
  char32_t hex(std::size_t digits);
  /// Passes blanks and comments, which begin with one of these and end with the line; `lines`: also the ends
  /// of lines.
  void space(bool lines, std::initializer_list<std::string_view> comments);
  /// The longest piece of such characters.
  std::string_view word(bool (*belongs)(char));
  [[noreturn]] void fail(const std::string& problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const;
  /// Of groups, so that hostile sources do not exhaust the stack.
  class Nested {
   public:
    explicit Nested(SourceReader& reader);
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    SourceReader& reader_;
  };

 private:
  std::string_view source_;
  std::string language_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// Rules by name, which may be used before they are written.
class EbnfRules {
 public:
  EbnfRules(const Vocabulary& vocabulary, const SourceReader& reader)
      : rules_(vocabulary, false), reader_(reader) {}

  Rules& rules() { return rules_; }
  Expressions& expressions() { return rules_.expressions(); }
  /// The index of a name, used at a position of the source.
  std::uint32_t use(std::string_view name, std::size_t position);
  void define(std::string_view name, std::size_t position, Ebnf body);
  bool defined(std::string_view name) const;
  const std::string& name(std::uint32_t rule) const { return list_[rule].name; }
  /// The expression of a rule that does not refer to itself. Throws where it does.
  ExprId expression(std::uint32_t rule, std::size_t position);

  /// The grammar that begins with this rule. Rules that refer to none but small ones become terminals.
  GrammarPtr finish(std::string_view root);

 private:
  struct Rule {
    std::string name;
    std::size_t used_at = 0;
    bool defined = false;
    Ebnf body{};
    std::uint32_t id = 0;  // in rules_
    enum class State : std::uint8_t { unknown, at_work, regular, recursive } state = State::unknown;
    ExprId expr = 0;
    std::size_t size = 0;  // parts of its expression
  };
  bool regular(const Ebnf& body, std::size_t& size);
  bool regular(std::uint32_t rule);
  ExprId expression(const Ebnf& body);
  Production lower(const Ebnf& body);
  Symbol symbol(const Ebnf& body);

  Rules rules_;
  const SourceReader& reader_;
  std::vector<Rule> list_;
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
};

}  // namespace ingot::grammar
