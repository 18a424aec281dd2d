#include "ingot/serve/message_parser.h"

#include <algorithm>
#include <utility>

namespace ingot::serve {
namespace {

constexpr const char* kSpace = " \t\r\n";

// The longest end of `text` that begins `marker`.
std::size_t begun(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  std::size_t length = std::min(marker.size() - 1, text.size());
  while (length > 0 && !text.ends_with(marker.substr(0, length))) --length;
  return length;
}

}  // namespace

MessageParser::MessageParser(MessageParserOptions options)
    : options_(std::move(options)),
      state_(options_.thoughts.begun ? State::reasoning : State::content),
      skip_space_(options_.thoughts.begun) {
  if (options_.channels) channels_.emplace();
}

MessageDelta MessageParser::push(std::string_view text) {
  if (channels_) return channels_->push(text);
  held_ += text;
  MessageDelta delta;
  while (advance(delta)) {
  }
  return delta;
}

MessageDelta MessageParser::finish() {
  if (channels_) return channels_->finish();
  MessageDelta delta;
  if (state_ == State::call) {
    add_calls(delta, std::exchange(held_, {}), "");
  } else if (state_ == State::reasoning) {
    delta.reasoning = std::exchange(held_, {});
  } else {
    add_content(delta, std::exchange(held_, {}));
  }
  return delta;
}

// Takes what is certain; true where there may be more behind a marker.
bool MessageParser::advance(MessageDelta& delta) {
  if (state_ == State::call) return advance_call(delta);
  return state_ == State::reasoning ? advance_reasoning(delta) : advance_content(delta);
}

bool MessageParser::enter(State state, std::size_t marker) {
  held_.erase(0, marker);
  state_ = state;
  skip_space_ = true;
  return true;
}

// Without an end a call ends where the next one begins, or with the message.
bool MessageParser::advance_call(MessageDelta& delta) {
  const grammar::ToolGrammar& format = options_.tools->grammar;
  if (format.begin.empty()) return false;
  const std::size_t end = held_.find(format.end.empty() ? format.begin : format.end);
  if (end == held_.npos) return false;
  add_calls(delta, held_.substr(0, end), format.end);
  if (format.end.empty()) return enter(State::call, end + format.begin.size());
  held_.erase(0, end + format.end.size());
  state_ = State::content;
  return true;
}

bool MessageParser::advance_reasoning(MessageDelta& delta) {
  if (skip_space_) held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
  if (!held_.empty()) skip_space_ = false;
  const std::string& marker = options_.thoughts.end;
  const std::size_t end = held_.find(marker);
  const std::size_t certain = end != held_.npos ? end : held_.size() - begun(held_, marker);
  delta.reasoning += held_.substr(0, certain);
  held_.erase(0, certain);
  return end != held_.npos && enter(State::content, marker.size());
}

bool MessageParser::advance_content(MessageDelta& delta) {
  const std::string& think = options_.thoughts.begin;
  const bool bare = options_.tools != nullptr && options_.tools->grammar.begin.empty();
  if (!has_content_ && (!think.empty() || bare)) {  // reasoning, and bare calls, come before all content
    const std::size_t first = held_.find_first_not_of(kSpace);
    if (first == held_.npos) return false;
    const std::string_view text = std::string_view(held_).substr(first);
    if (!think.empty() && text.starts_with(think)) return enter(State::reasoning, first + think.size());
    if (!think.empty() && std::string_view(think).starts_with(text)) return false;  // it may become one
    if (bare && text.starts_with('{')) return enter(State::call, 0);
  }
  const std::string_view marker =
      options_.tools != nullptr ? std::string_view(options_.tools->grammar.begin) : std::string_view();
  const std::size_t at = marker.empty() ? held_.npos : held_.find(marker);
  const std::size_t certain = at != held_.npos ? at : held_.size() - begun(held_, marker);
  add_content(delta, held_.substr(0, certain));
  held_.erase(0, certain);
  return at != held_.npos && enter(State::call, marker.size());
}

void MessageParser::add_content(MessageDelta& delta, std::string text) {
  if (skip_space_) text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return;
  skip_space_ = false;
  has_content_ = true;
  delta.content += text;
}

void MessageParser::add_calls(MessageDelta& delta, const std::string& body, std::string_view end) {
  const ToolFormat& format = *options_.tools;
  std::vector<ToolCall> calls = format.read(body, format, options_.json_parameters);
  has_content_ = true;
  skip_space_ = !calls.empty();
  for (ToolCall& call : calls) delta.calls.push_back(std::move(call));
  if (calls.empty()) delta.content.append(format.grammar.begin).append(body).append(end);
}

}  // namespace ingot::serve
