// What a model wrote: its calls of tools and its reasoning are the same wherever the pieces begin.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/serve/message_parser.h"

namespace {

// A template of each format, and what surrounds reasoning.
constexpr std::array<std::string_view, 12> kTemplates{"<think>",
                                                      "<function=",
                                                      "<arg_key><think>",
                                                      "[TOOL_CALLS][ARGS][THINK]",
                                                      "[TOOL_CALLS]",
                                                      "<｜tool▁calls▁begin｜>```json<think>",
                                                      "<｜tool▁calls▁begin｜>",
                                                      "<start_function_call>",
                                                      "<|tool_call><|channel>thought\n",
                                                      "<|tool_call|>",
                                                      "<|START_ACTION|><|START_THINKING|>",
                                                      "dictionary of argument name and its value"};

std::string parsed(std::string_view text, std::string_view chat_template, std::size_t size) {
  using namespace ingot::serve;
  MessageParser parser({.tools = &find_tool_format(chat_template),
                        .json_parameters = {{"f", "a"}},
                        .thoughts = find_thoughts(chat_template)});
  std::string content, reasoning, calls;
  const auto add = [&](const MessageDelta& delta) {
    content += delta.content;
    reasoning += delta.reasoning;
    for (const ToolCall& call : delta.calls) calls += call.name + '(' + call.arguments + ")\n";
  };
  for (std::size_t at = 0; at < text.size(); at += size) add(parser.push(text.substr(at, size)));
  add(parser.finish());
  return content + '\0' + reasoning + '\0' + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view chat_template = kTemplates[data[0] % kTemplates.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = parsed(text, chat_template, std::max<std::size_t>(1, text.size()));
  if (parsed(text, chat_template, data[1] % 16U + 1U) != whole) __builtin_trap();
  return 0;
}
