#include "ingot/serve/message_parser.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::serve {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr const char* kSpace = " \t\r\n";

// The longest end of `text` that begins `marker`.
std::size_t begun(std::string_view text, std::string_view marker) {
  std::size_t length = std::min(marker.size() - 1, text.size());
  while (length > 0 && !text.ends_with(marker.substr(0, length))) --length;
  return length;
}

}  // namespace

MessageParser::MessageParser(const MessageParserOptions& options)
    : options_(options),
      state_(options.begins_reasoning ? State::reasoning : State::content),
      skip_space_(options.begins_reasoning) {}

MessageDelta MessageParser::push(std::string_view text) {
  held_ += text;
  MessageDelta delta;
  while (advance(delta)) {
  }
  return delta;
}

MessageDelta MessageParser::finish() {
  MessageDelta delta;
  if (state_ == State::call) {
    add_call(delta, std::exchange(held_, {}), "");
  } else if (state_ == State::reasoning) {
    delta.reasoning = std::exchange(held_, {});
  } else {
    add_content(delta, std::exchange(held_, {}));
  }
  return delta;
}

// Takes what is certain; true where there may be more behind a marker.
bool MessageParser::advance(MessageDelta& delta) {
  if (state_ == State::call) {
    const std::size_t end = held_.find(kCallEnd);
    if (end == held_.npos) return false;
    add_call(delta, held_.substr(0, end), kCallEnd);
    held_.erase(0, end + kCallEnd.size());
    state_ = State::content;
    return true;
  }
  if (state_ == State::reasoning) {
    if (skip_space_) held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
    if (!held_.empty()) skip_space_ = false;
    const std::size_t end = held_.find(kThinkEnd);
    const std::size_t certain = end != held_.npos ? end : held_.size() - begun(held_, kThinkEnd);
    delta.reasoning += held_.substr(0, certain);
    held_.erase(0, certain);
    if (end == held_.npos) return false;
    held_.erase(0, kThinkEnd.size());
    state_ = State::content;
    skip_space_ = true;
    return true;
  }
  // Reasoning comes before all content.
  const bool may_think = options_.reasoning && !has_content_;
  std::size_t at = held_.npos, hold = 0;
  std::string_view marker;
  const auto look_for = [&](std::string_view each) {
    const std::size_t found = held_.find(each);
    if (found < at) {
      at = found;
      marker = each;
    }
    hold = std::max(hold, begun(held_, each));
  };
  if (options_.tools) look_for(kCall);
  if (may_think && held_.find_first_not_of(kSpace) != held_.npos) {
    const std::size_t first = held_.find_first_not_of(kSpace);
    if (held_.compare(first, kThink.size(), kThink) == 0) {
      at = first;
      marker = kThink;
    } else if (kThink.starts_with(std::string_view(held_).substr(first))) {
      return false;  // it may become one
    }
  } else if (may_think) {
    return false;
  }
  const std::size_t certain = at != held_.npos ? at : held_.size() - hold;
  add_content(delta, held_.substr(0, certain));
  held_.erase(0, certain);
  if (at == held_.npos || marker.empty()) return false;
  held_.erase(0, marker.size());
  state_ = marker == kThink ? State::reasoning : State::call;
  skip_space_ = true;
  return true;
}

void MessageParser::add_content(MessageDelta& delta, std::string text) {
  if (skip_space_) text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return;
  skip_space_ = false;
  has_content_ = true;
  delta.content += text;
}

void MessageParser::add_call(MessageDelta& delta, const std::string& body, std::string_view end) {
  skip_space_ = true;
  has_content_ = true;
  const auto json = parse_json_or_discard<nlohmann::ordered_json>(body);
  if (json.is_object() && json.contains("name") && json["name"].is_string()) {
    const auto arguments = json.find("arguments");
    delta.calls.push_back(
        {json["name"].get<std::string>(), arguments != json.end() ? dump_json(*arguments) : "{}"});
    return;
  }
  skip_space_ = false;
  delta.content.append(kCall).append(body).append(end);
}

}  // namespace ingot::serve
