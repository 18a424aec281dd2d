#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot::serve {

struct MessageParserOptions {
  bool tools =
      false;  ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>, as Hermes and Qwen write it
  bool reasoning = false;         ///< <think>...</think>
  bool begins_reasoning = false;  ///< the prompt ends with <think>
};

struct ToolCall {
  std::string name;
  std::string arguments;  ///< JSON
};

/// What a piece of text adds to a message.
struct MessageDelta {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

/// Takes a model's text apart while it comes: content, reasoning and calls of tools. What may be the
/// beginning of a marker is held back. A marker inside reasoning is text; a call that is not JSON is content.
class MessageParser {
 public:
  explicit MessageParser(const MessageParserOptions& options);

  MessageDelta push(std::string_view text);
  /// What was held back, at the end.
  MessageDelta finish();

 private:
  enum class State { content, reasoning, call };
  bool advance(MessageDelta& delta);
  void add_content(MessageDelta& delta, std::string text);
  void add_call(MessageDelta& delta, const std::string& body, std::string_view end);

  MessageParserOptions options_;
  State state_;
  std::string held_;
  bool skip_space_ = false;  // behind reasoning and calls
  bool has_content_ = false;
};

}  // namespace ingot::serve
