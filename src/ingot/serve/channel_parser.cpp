#include "ingot/serve/channel_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::serve {
namespace {

constexpr std::string_view kMessage = "<|message|>", kChannel = "<|channel|>",
                           kRecipient = "to=", kFunctions = "functions.";
// What a message ends with. Some leave the end out, and begin the next header.
constexpr std::array<std::string_view, 5> kEnds{"<|end|>", "<|call|>", "<|return|>", "<|start|>", kChannel};

// The word behind a marker in a header.
std::string_view word_behind(std::string_view header, std::string_view marker) {
  const std::size_t at = header.find(marker);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + marker.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

// The end of `text` that may begin one of the ends.
std::size_t begun_end(std::string_view text) {
  std::size_t most = 0;
  for (const std::string_view end : kEnds) {
    std::size_t length = std::min(end.size() - 1, text.size());
    while (length > 0 && !text.ends_with(end.substr(0, length))) --length;
    most = std::max(most, length);
  }
  return most;
}

}  // namespace

bool has_channels(std::string_view chat_template) {
  return chat_template.find(kChannel) != chat_template.npos &&
         chat_template.find(kMessage) != chat_template.npos;
}

MessageDelta ChannelParser::push(std::string_view text) {
  held_ += text;
  MessageDelta delta;
  while (advance(delta)) {
  }
  return delta;
}

MessageDelta ChannelParser::finish() {
  MessageDelta delta;
  std::string rest = std::exchange(held_, {});
  if (kind_ != Kind::header) {
    add(delta, std::move(rest));
  } else if (rest.find("<|") == rest.npos) {
    delta.content = std::move(rest);  // nobody wrote a header
  }
  if (kind_ == Kind::call) add_call(delta);
  return delta;
}

bool ChannelParser::advance(MessageDelta& delta) {
  return kind_ == Kind::header ? advance_header() : advance_body(delta);
}

// The prompt ends behind "<|start|>assistant": the first header begins there.
bool ChannelParser::advance_header() {
  const std::size_t end = held_.find(kMessage);
  if (end == held_.npos) return false;
  const std::string_view header = std::string_view(held_).substr(0, end);
  std::string_view tool = word_behind(header, kRecipient);
  if (tool.starts_with(kFunctions)) tool.remove_prefix(kFunctions.size());
  tool_ = tool;
  const bool reasons = word_behind(header, kChannel) == "analysis";
  kind_ = !tool_.empty() ? Kind::call : reasons ? Kind::reasoning : Kind::content;
  held_.erase(0, end + kMessage.size());
  return true;
}

bool ChannelParser::advance_body(MessageDelta& delta) {
  std::size_t end = held_.npos;
  std::string_view marker;
  for (const std::string_view each : kEnds) {
    const std::size_t at = held_.find(each);
    if (at < end) {
      end = at;
      marker = each;
    }
  }
  const std::size_t certain = end != held_.npos ? end : held_.size() - begun_end(held_);
  add(delta, held_.substr(0, certain));
  held_.erase(0, certain);
  if (end == held_.npos) return false;
  if (kind_ == Kind::call) add_call(delta);
  kind_ = Kind::header;
  if (marker != kChannel) held_.erase(0, marker.size());
  return true;
}

void ChannelParser::add(MessageDelta& delta, std::string text) {
  (kind_ == Kind::call ? arguments_ : kind_ == Kind::reasoning ? delta.reasoning : delta.content) += text;
}

// Arguments that are not JSON stay as they are: a tool may take a program, say.
void ChannelParser::add_call(MessageDelta& delta) {
  const auto json = parse_json_or_discard<nlohmann::ordered_json>(arguments_);
  if (!json.is_discarded()) arguments_ = dump_json(json);
  if (arguments_.find_first_not_of(" \t\r\n") == std::string::npos) arguments_ = "{}";
  delta.calls.push_back({std::exchange(tool_, {}), std::exchange(arguments_, {})});
  kind_ = Kind::header;
}

}  // namespace ingot::serve
