#include "ingot/serve/message_parser.h"

#include <gtest/gtest.h>

namespace ingot::serve {
namespace {

// The message of a text that comes in pieces of `size` bytes.
MessageDelta parse(const std::string& text, const MessageParserOptions& options, std::size_t size) {
  MessageParser parser(options);
  MessageDelta all;
  const auto add = [&](const MessageDelta& delta) {
    all.content += delta.content;
    all.reasoning += delta.reasoning;
    all.calls.insert(all.calls.end(), delta.calls.begin(), delta.calls.end());
  };
  for (std::size_t at = 0; at < text.size(); at += size) add(parser.push(text.substr(at, size)));
  add(parser.finish());
  return all;
}

MessageParserOptions hermes() {
  return {.tools = &find_tool_format("<tool_call>"), .thoughts = find_thoughts("{{ '<think>' }}")};
}

TEST(MessageParser, TakesReasoningAndCallsApartWhereverThePiecesBegin) {
  const std::string text =
      "<think>\nmaybe <tool_call>{}</tool_call>\n</think>\n\nLet me see.\n"
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"time\"}</tool_call>";
  for (const std::size_t size : {1UL, 2UL, 7UL, text.size()}) {
    const MessageDelta message = parse(text, hermes(), size);
    EXPECT_EQ(message.reasoning, "maybe <tool_call>{}</tool_call>\n");
    EXPECT_EQ(message.content, "Let me see.\n");
    ASSERT_EQ(message.calls.size(), 2U);
    EXPECT_EQ(message.calls[0].name, "weather");
    EXPECT_EQ(message.calls[0].arguments, "{\"city\":\"Bern\"}");
    EXPECT_EQ(message.calls[1].arguments, "{}");
  }
}

TEST(MessageParser, APromptThatOpensReasoningNeedsNoMarkerInTheAnswer) {
  const MessageDelta message =
      parse("\nhm</think>yes <think>", {.thoughts = {"<think>", "</think>", true}}, 1);
  EXPECT_EQ(message.reasoning, "hm");
  EXPECT_EQ(message.content, "yes <think>");
}

TEST(MessageParser, WithoutToolsAndReasoningEverythingIsContent) {
  const std::string text = "<think>a</think><tool_call>{\"name\":\"x\"}</tool_call>";
  EXPECT_EQ(parse(text, {}, 3).content, text);
}

TEST(MessageParser, WhatIsNoCallStaysText) {
  EXPECT_EQ(parse("<tool_call>not json</tool_call> b", hermes(), 1).content,
            "<tool_call>not json</tool_call> b");
  EXPECT_EQ(parse("a <tool_c", hermes(), 1).content, "a <tool_c");
  EXPECT_EQ(parse("<thin", hermes(), 1).content, "<thin");
  EXPECT_EQ(parse("  ", hermes(), 1).content, "  ");
}

}  // namespace
}  // namespace ingot::serve
