#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/grammar/grammar.h"

namespace ingot::infer {

/// What generated text has to match, as people say it.
struct Constraint {
  enum class Kind : std::uint8_t { none, json_object, json_schema, regex, choice, gbnf, lark, tools };
  Kind kind = Kind::none;
  std::string source{};                ///< the schema, the expression or the grammar
  std::vector<std::string> choices{};  ///< of Kind::choice
  grammar::ToolGrammar tools{};        ///< of Kind::tools
  grammar::Thoughts thoughts{};        ///< may come in front

  bool operator==(const Constraint&) const = default;
};

/// A grammar in either language: GBNF, whose rules are written with "::=", or Lark.
Constraint grammar_constraint(std::string source);

/// Compiles constraints for a tokenizer, and keeps the latest ones. Safe for several threads.
class GrammarCache {
 public:
  explicit GrammarCache(text::Tokenizer tokenizer);
  ~GrammarCache();

  /// One that is kept; null where it has to be compiled. Waits for nothing.
  grammar::GrammarPtr find(const Constraint& constraint) const;
  /// Null for Kind::none. Throws InvalidConfig as the functions of grammar.h do. Compiling may take seconds.
  grammar::GrammarPtr get(const Constraint& constraint);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Follows a sequence by a grammar while it is written. Where the grammar has thoughts, these come first and
/// are free; they begin by the marker, where that is a token, and end with theirs. Line breaks may follow.
class GrammarGuide {
 public:
  /// `end_tokens`: what may come where the grammar is finished.
  GrammarGuide(grammar::GrammarPtr grammar, std::vector<std::int32_t> end_tokens);
  ~GrammarGuide();

  /// The tokens that may come next.
  const grammar::TokenMask& allowed();
  /// Goes on by a token that was allowed.
  void take(std::int32_t token);
  /// Whether the text is complete, and nothing can follow.
  bool complete() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot::infer
