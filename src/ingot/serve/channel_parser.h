#pragma once

#include <string>
#include <string_view>

#include "ingot/serve/message_delta.h"

namespace ingot::serve {

/// Whether a chat template writes messages in channels (harmony, of gpt-oss).
bool has_channels(std::string_view chat_template);
/// What stands before the text that is meant for people, in such a message.
inline constexpr std::string_view kFinalChannel = "<|channel|>final<|message|>";

/// Takes a text in channels apart while it comes: `analysis` is reasoning, what is addressed to a tool a
/// call, the rest content. A text without any header is content.
class ChannelParser {
 public:
  MessageDelta push(std::string_view text);
  /// What was held back, at the end.
  MessageDelta finish();

 private:
  enum class Kind { header, content, reasoning, call };
  bool advance(MessageDelta& delta);
  bool advance_header();
  bool advance_body(MessageDelta& delta);
  void add(MessageDelta& delta, std::string text);
  void add_call(MessageDelta& delta);

  Kind kind_ = Kind::header;
  std::string held_;
  std::string tool_, arguments_;
};

}  // namespace ingot::serve
