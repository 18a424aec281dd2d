#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/infer/chat_prompt.h"
#include "ingot/infer/session.h"

namespace ingot::infer {

/// A conversation with a model. With EngineOptions::prefix_cache only what a turn adds goes through the
/// model.
class Chat {
 public:
  /// `session` has to outlive the chat. `system`: what the model is told before the conversation, empty for
  /// nothing. Throws as ChatPrompt does.
  Chat(Session& session, TextOptions options, std::string system = {});

  /// Begins a new conversation.
  void reset();
  /// Writes the answer to a question; `on_text` gets it piece by piece. A question that was not answered, for
  /// an error, is forgotten.
  WrittenText answer(const std::string& question, const OnText& on_text = {});

  const std::vector<text::ChatMessage>& messages() const { return messages_; }
  /// Tokens of the conversation up to the last answer.
  std::int64_t tokens() const { return tokens_; }

 private:
  Session& session_;
  TextOptions options_;
  std::string system_;
  ChatPrompt prompt_;
  std::vector<text::ChatMessage> messages_;
  std::int64_t tokens_ = 0;
};

}  // namespace ingot::infer
