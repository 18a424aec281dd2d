#include "ingot/infer/chat.h"

#include "ingot/base/error.h"

namespace ingot::infer {

Chat::Chat(Session& session, TextOptions options, std::string system)
    : session_(session),
      options_(std::move(options)),
      system_(std::move(system)),
      prompt_(session.tokenizer(), session.path()) {
  reset();
}

void Chat::reset() {
  messages_.clear();
  tokens_ = 0;
  if (!system_.empty()) messages_.push_back({"system", system_});
}

WrittenText Chat::answer(const std::string& question, const OnText& on_text) {
  messages_.push_back({"user", question});
  try {
    WrittenText answer = session_.generate(prompt_.encode(messages_), options_, on_text);
    tokens_ = answer.prompt_tokens + static_cast<std::int64_t>(answer.generation.tokens.size());
    messages_.push_back({"assistant", answer.text});
    return answer;
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

}  // namespace ingot::infer
