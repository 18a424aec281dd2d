#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::grammar {

class TokenMask;
class TokenTrie;
struct SharedAutomata;
struct Program;

/// The tokens of a tokenizer as grammars see them, with what grammars of it have in common: automata of
/// strings, numbers and their like, and the tokens that these take. Threads may share it.
class Vocabulary {
 public:
  explicit Vocabulary(const text::Tokenizer& tokenizer);
  /// From what each id writes: special tokens begin with the byte FF.
  explicit Vocabulary(std::vector<std::string> spellings);

  const TokenTrie& trie() const { return *trie_; }
  /// For a grammar that is being made: those that grammars share (new ones once the old ones have grown
  /// large), or its own.
  std::shared_ptr<SharedAutomata> automata(bool shared) const;

 private:
  std::shared_ptr<const TokenTrie> trie_;
  struct Current;
  std::shared_ptr<Current> current_;
};

/// The markers around a model's reasoning, which no grammar describes.
struct Thoughts {
  std::string begin{}, end{};  ///< no end: there is none
  bool begun = false;          ///< the prompt ends with `begin`

  bool operator==(const Thoughts&) const = default;
};

/// A grammar over a vocabulary: what a text has to be. Immutable; threads may share it. Compiled by the
/// functions below, which throw InvalidConfig where the source is wrong, or asks for what cannot be enforced:
/// it names the line and column, or the keyword and its JSON pointer.
class Grammar {
 public:
  explicit Grammar(std::shared_ptr<const Program> program, Thoughts thoughts = {})
      : program_(std::move(program)), thoughts_(std::move(thoughts)) {}
  const std::shared_ptr<const Program>& program() const { return program_; }
  /// What may come in front of the text that is described.
  const Thoughts& thoughts() const { return thoughts_; }

 private:
  std::shared_ptr<const Program> program_;
  Thoughts thoughts_;
};

using GrammarPtr = std::shared_ptr<const Grammar>;

struct JsonSchemaOptions {
  /// Spaces and line breaks as people and models write them, a bounded number; false: none at all.
  bool white_space = true;
};

/// A JSON value that a schema (draft 2020-12 and earlier, as a text of JSON) accepts. docs/inference.md lists
/// the keywords. Properties come in the order in which the schema declares them.
GrammarPtr from_json_schema(const Vocabulary& vocabulary, std::string_view schema,
                            const JsonSchemaOptions& options = {});
/// Any JSON object.
GrammarPtr any_json_object(const Vocabulary& vocabulary);
/// A text that matches the regular expression as a whole.
GrammarPtr from_regex(const Vocabulary& vocabulary, std::string_view pattern);
/// One of these texts.
GrammarPtr from_choice(const Vocabulary& vocabulary, std::span<const std::string> texts);
/// llama.cpp's GBNF. The text is what the rule "root" makes.
GrammarPtr from_gbnf(const Vocabulary& vocabulary, std::string_view source);
/// A subset of Lark's language. The text is what the rule "start" makes.
GrammarPtr from_lark(const Vocabulary& vocabulary, std::string_view source);

/// How a family of models writes calls of tools. A call is a JSON object of name and arguments or, where
/// there is an `open` or a `middle`, `open` NAME `middle` ARGUMENTS `close`. Arguments are a JSON object or,
/// where there is a `key`, for each one `key` NAME `value` VALUE `value_end`: strings as they are, else JSON.
/// With a `quote` they are an object as Gemma writes it: strings as they are between two of these, bare keys.
struct ToolGrammar {
  struct Tool {
    std::string name, parameters;  ///< parameters: JSON Schema of the arguments, empty for any object
    bool operator==(const Tool&) const = default;
  };
  /// What `begin` and `end` enclose.
  enum class Around : std::uint8_t { each_call, all_calls, json_list };

  std::vector<Tool> tools{};
  Around around = Around::each_call;
  std::string begin{}, end{};
  std::string name_key = "name", arguments_key = "arguments";  ///< of the JSON object
  std::string open{}, middle{}, close{};
  std::string key{}, value{}, value_end{};
  std::string quote{};
  std::string between{};  ///< two calls, beside a line break that may come
  /// Messages of several parts (harmony): reasoning may come first, between these, and text without calls
  /// begins with `text`.
  std::string reasoning_begin{}, reasoning_end{}, text{};
  bool required = false;  ///< a call has to come, and nothing else; else text, which calls may follow
  bool several = true;    ///< more than one call may come

  bool operator==(const ToolGrammar&) const = default;
};

/// Calls of these tools, whose arguments satisfy their schemas (of strings behind `key` only type and enum
/// hold). Markers that are special tokens of the vocabulary are written as these.
GrammarPtr from_tools(const Vocabulary& vocabulary, const ToolGrammar& tools);

}  // namespace ingot::grammar
