#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/infer/chat_prompt.h"
#include "ingot/infer/session.h"

namespace ingot::infer {

/// What happens to a conversation that outgrows the model's context.
enum class FullContext : std::uint8_t {
  slide,      ///< the oldest turns are forgotten
  summarize,  ///< the model sums the oldest turns up, and they are forgotten but for that
  stop        ///< the next question is an error
};

/// A conversation with a model. With EngineOptions::prefix_cache only what a turn adds goes through the
/// model.
class Chat {
 public:
  /// `session` has to outlive the chat. `system`: what the model is told before the conversation, empty for
  /// nothing. Throws as ChatPrompt does.
  Chat(Session& session, TextOptions options, std::string system = {}, FullContext full = FullContext::slide);

  /// Begins a new conversation.
  void reset();
  /// From the next answer on the model is told this before the conversation.
  void set_system(const std::string& system);
  /// Writes the answer to a question; `on_text` gets it piece by piece. A question that was not answered, for
  /// an error, is forgotten.
  WrittenText answer(const std::string& question, const OnText& on_text = {});
  /// Answers the last question once more, drawing other tokens. InvalidConfig where none was asked.
  WrittenText retry(const OnText& on_text = {});

  /// What was said, without what is forgotten.
  const std::vector<text::ChatMessage>& messages() const { return messages_; }
  /// All that was said, also what the model no longer sees.
  std::vector<text::ChatMessage> transcript() const;
  /// Tokens of the conversation up to the last answer.
  std::int64_t tokens() const { return tokens_; }
  /// Questions that were dropped, with their answers.
  std::int64_t forgotten() const { return forgotten_; }
  /// What the model has said instead of them (FullContext::summarize).
  const std::string& summary() const { return summary_; }

 private:
  bool has_system() const { return !messages_.empty() && messages_.front().role == "system"; }
  std::vector<text::ChatMessage> with_summary(std::vector<text::ChatMessage> messages) const;
  std::vector<std::int32_t> prompt() const;
  void make_room();
  std::string sum_up(std::vector<text::ChatMessage> turns);

  Session& session_;
  TextOptions options_;
  std::string system_;
  FullContext full_;
  ChatPrompt prompt_;
  std::vector<text::ChatMessage> messages_, forgotten_messages_;
  std::string summary_;
  std::int64_t tokens_ = 0, forgotten_ = 0;
};

}  // namespace ingot::infer
