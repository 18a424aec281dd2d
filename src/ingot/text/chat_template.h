#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/error.h"

namespace ingot::text {

/// A chat template that cannot be read or that refuses its input. `line` counts from 1; 0: not known.
class TemplateError : public Error {
 public:
  TemplateError(int line, const std::string& problem);
  std::string_view kind() const noexcept override { return "template_error"; }
  int line;
};

struct ChatMessage {
  std::string role;
  std::string content;
};

/// What a template is given. The JSON members are texts, so that messages may hold whatever the template
/// knows: parts, tool calls, names.
struct ChatInput {
  std::string messages = "[]";  ///< a list of objects
  std::string tools = "null";   ///< a list of function descriptions
  std::string documents = "null";
  std::string variables = "{}";  ///< an object: further variables such as {"enable_thinking": false}
  bool add_generation_prompt = false;
  std::string bos_token, eos_token, unk_token, pad_token;
  std::int64_t now = -1;  ///< what strftime_now() tells, in seconds since 1970; -1: the clock
};

/// What a template makes of a chat.
struct RenderedChat {
  struct Span {
    std::size_t begin = 0, end = 0;  ///< in bytes of the text
    bool operator==(const Span&) const = default;
  };
  std::string text;
  /// What {% generation %} blocks wrote: the parts that a model learns to write. Empty where there are none,
  /// or where one stands inside a filter or in text that is kept for later, so that it is not found again.
  std::vector<Span> generated;
};

/// Bounds on what a template may use: it comes from a file that nobody has read.
struct ChatTemplateLimits {
  std::size_t output_bytes = 16U << 20;
  std::int64_t steps = 10'000'000;  ///< about one per operation and per 32 bytes of text made
  int depth = 600;                  ///< of nested expressions, blocks and macro calls
};

/// A chat template: the part of Jinja2 that templates on the Hub use, with the settings of `transformers`
/// (trim_blocks, lstrip_blocks, break and continue, generation blocks, no HTML escaping in tojson). It runs
/// in a sandbox: it sees its input and nothing else, changes none of it, and stops at the limits.
class ChatTemplate {
 public:
  /// Throws TemplateError with the line when the source is not understood.
  explicit ChatTemplate(std::string_view source, const ChatTemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// Throws TemplateError: what the template raises, what does not work, or a limit.
  std::string render(const ChatInput& input) const { return render_marked(input).text; }
  /// The same, with what its generation blocks wrote.
  RenderedChat render_marked(const ChatInput& input) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The messages as JSON, for ChatInput.
std::string messages_json(const std::vector<ChatMessage>& messages);

}  // namespace ingot::text
