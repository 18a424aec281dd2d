#include "ingot/infer/chat.h"

#include <algorithm>
#include <iterator>

#include "ingot/base/error.h"

namespace ingot::infer {
namespace {

using Messages = std::vector<text::ChatMessage>;

constexpr std::int64_t kSummaryTokens = 256;

}  // namespace

Chat::Chat(Session& session, TextOptions options, std::string system, FullContext full)
    : session_(session),
      options_(std::move(options)),
      system_(std::move(system)),
      full_(full),
      prompt_(session.tokenizer(), session.path()) {
  reset();
}

void Chat::reset() {
  messages_.clear();
  forgotten_messages_.clear();
  summary_.clear();
  tokens_ = forgotten_ = 0;
  set_system(system_);
}

void Chat::set_system(const std::string& system) {
  system_ = system;
  if (has_system()) messages_.erase(messages_.begin());
  if (!system_.empty()) messages_.insert(messages_.begin(), {"system", system_});
}

// Not every template takes a second system message, and some have none for the first.
Messages Chat::with_summary(Messages messages) const {
  if (summary_.empty()) return messages;
  const auto first = std::ranges::find(messages, "user", &text::ChatMessage::role);
  if (first != messages.end()) {
    first->content = "(Earlier in this conversation: " + summary_ + ")\n\n" + first->content;
  }
  return messages;
}

std::vector<std::int32_t> Chat::prompt() const { return prompt_.encode(with_summary(messages_)); }

std::string Chat::sum_up(Messages turns) {
  turns.push_back({"user", "Sum up our conversation so far in at most 120 words. Write nothing else."});
  TextOptions options = options_;
  options.max_tokens = kSummaryTokens;
  options.constraint = {};
  return session_.generate(prompt_.encode(with_summary(std::move(turns))), options).text;
}

// Half of the context becomes free at once: a prompt that begins in another way is read again as a whole.
void Chat::make_room() {
  const std::int64_t context = session_.engine().context();
  const std::int64_t reserve = std::min(options_.max_tokens, context / 4);
  const auto length = [this] { return static_cast<std::int64_t>(prompt().size()); };
  if (full_ == FullContext::stop || length() + reserve <= context) return;
  const std::ptrdiff_t first = has_system() ? 1 : 0;
  Messages oldest(messages_.begin(), messages_.begin() + first);
  while (length() > context / 2 && std::ssize(messages_) - first > 2) {
    const auto turn = messages_.begin() + first;
    oldest.insert(oldest.end(), turn, turn + 2);
    forgotten_messages_.insert(forgotten_messages_.end(), turn, turn + 2);
    messages_.erase(turn, turn + 2);
    ++forgotten_;
  }
  if (full_ != FullContext::summarize || std::ssize(oldest) == first) return;
  try {
    summary_ = sum_up(std::move(oldest));
  } catch (const DimensionMismatch&) {  // the question does not fit: the oldest turns are dropped
    summary_.clear();
  }
}

Messages Chat::transcript() const {
  Messages all = messages_;
  all.insert(all.begin() + (has_system() ? 1 : 0), forgotten_messages_.begin(), forgotten_messages_.end());
  return all;
}

WrittenText Chat::answer(const std::string& question, const OnText& on_text) {
  messages_.push_back({"user", question});
  try {
    make_room();
    WrittenText answer = session_.generate(prompt(), options_, on_text);
    tokens_ = answer.prompt_tokens + static_cast<std::int64_t>(answer.generation.tokens.size());
    messages_.push_back({"assistant", answer.text});
    return answer;
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

WrittenText Chat::retry(const OnText& on_text) {
  const bool asked = !messages_.empty() && messages_.back().role == "assistant";
  INGOT_CHECK(asked, InvalidConfig("retry", "nothing was asked yet"));
  const text::ChatMessage answered = messages_.back(), question = messages_[messages_.size() - 2];
  messages_.resize(messages_.size() - 2);
  ++options_.sampling.seed;
  try {
    return answer(question.content, on_text);
  } catch (...) {
    messages_.insert(messages_.end(), {question, answered});
    throw;
  }
}

}  // namespace ingot::infer
