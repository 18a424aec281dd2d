#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ingot/serve/channel_parser.h"
#include "ingot/serve/message_delta.h"
#include "ingot/serve/tool_format.h"

namespace ingot::serve {

struct MessageParserOptions {
  const ToolFormat* tools = nullptr;  ///< how calls are written; null: there are none
  JsonParameters json_parameters{};
  grammar::Thoughts thoughts{};  ///< the markers of reasoning
  bool channels = false;         ///< the text is in channels (ChannelParser), and nothing of the above holds
};

/// Takes a model's text apart while it comes: content, reasoning and calls of tools. What may be the
/// beginning of a marker is held back. A marker inside reasoning is text; what cannot be read as a call is
/// content.
class MessageParser {
 public:
  explicit MessageParser(MessageParserOptions options);

  MessageDelta push(std::string_view text);
  /// What was held back, at the end.
  MessageDelta finish();

 private:
  enum class State { content, reasoning, call };
  bool advance(MessageDelta& delta);
  bool advance_content(MessageDelta& delta);
  bool advance_reasoning(MessageDelta& delta);
  bool advance_call(MessageDelta& delta);
  bool enter(State state, std::size_t marker);
  void add_content(MessageDelta& delta, std::string text);
  void add_calls(MessageDelta& delta, const std::string& body, std::string_view end);

  MessageParserOptions options_;
  std::optional<ChannelParser> channels_;
  State state_;
  std::string held_;
  bool skip_space_ = false;  // behind reasoning and calls
  bool has_content_ = false;
};

}  // namespace ingot::serve
