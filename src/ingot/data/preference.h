#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/data/chat.h"
#include "ingot/data/documents.h"
#include "ingot/data/sample_encoder.h"
#include "ingot/data/token_store.h"
#include "ingot/text/tokenizer.h"

namespace ingot::data {

/// What people said of answers.
enum class PreferenceKind : std::uint8_t {
  pair,     ///< this answer is better than that one (DPO and its kin)
  verdict,  ///< this answer is good, or it is not (KTO)
};

/// Under which names a record holds a prompt and its answers. Each may be text, a message, or a list of
/// messages; an answer may also be a whole conversation that ends with it. Without a prompt it is what both
/// answers begin with, as in trl.
struct PreferenceFields {
  std::string prompt;      ///< empty: "prompt", "question", "instruction", "input", or messages
  std::string chosen;      ///< empty: "chosen", "chosen_response"
  std::string rejected;    ///< empty: "rejected", "rejected_response"
  std::string completion;  ///< empty: "completion", "response"
  std::string label = "label", system = "system";
  std::string prompt_format = "{prompt}", chosen_format = "{chosen}", rejected_format = "{rejected}",
              completion_format = "{completion}";  ///< of text; {system} is known too
  ChatFields chat;                                 ///< of messages
  bool templated = false;                          ///< text is a message, too: the template writes it

  /// Whether the record has what `kind` needs beside a prompt.
  bool found_in(const Record& record, PreferenceKind kind) const;
};

/// Preferences as samples: both answers, each behind its prompt, one after the other; or one answer, with the
/// verdict in the mask of its first token, which is never a target. Answers and what ends them are learned,
/// prompts are masked. read_preference() takes such a sample apart.
///
/// `chat_template` may be empty where records hold no messages. FormatError, with the location, for a record
/// without a pair (or without a label), without a prompt, or whose answers are not text or messages.
SampleEncoder preference_encoder(const text::Tokenizer& tokenizer, const std::string& chat_template,
                                 const PreferenceFields& fields, PreferenceKind kind,
                                 const std::string& variables = "{}");

/// A prompt to be answered.
struct Prompt {
  std::vector<std::int32_t> tokens;
  std::string text;    ///< as the model reads it
  std::string record;  ///< JSON: what it came from, for whoever judges the answers
  RecordLocation location;
};

/// The prompts of a source: the answers that records may have are not looked at. FormatError at the location
/// of a record without a prompt; IoError where there are no records.
std::vector<Prompt> load_prompts(const SourceOptions& source, const text::Tokenizer& tokenizer,
                                 const std::string& chat_template, const PreferenceFields& fields,
                                 const std::string& variables = "{}");

/// A prompt and its answer: tokens [prompt, size) of it are learned.
struct PromptedAnswer {
  std::vector<std::int32_t> tokens;
  std::int64_t prompt = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
};

struct Preference {
  PromptedAnswer chosen;
  std::optional<PromptedAnswer> rejected;  ///< of a pair
  bool desirable = true;                   ///< a verdict's

  /// The tokens of the longer answer, with its prompt.
  std::int64_t longest() const;
};

/// The sample at `range` of a store that preference_encoder's samples are in.
Preference read_preference(const TokenStore& store, TokenRange range, PreferenceKind kind);

}  // namespace ingot::data
