#include "ingot/serve/channel_parser.h"

#include <array>
#include <string_view>

#include <gtest/gtest.h>

#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_trie.h"
#include "ingot/serve/message_parser.h"
#include "ingot/serve/tool_format.h"

namespace ingot::serve {
namespace {

// The message of a text that comes in pieces of `size` bytes.
MessageDelta parse(const std::string& text, std::size_t size) {
  MessageParser parser({.channels = true});
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

TEST(ChannelParser, AnalysisIsReasoningAndFinalIsContentWhereverThePiecesBegin) {
  const std::string text =
      "<|channel|>analysis<|message|>Is 2 < 3? <|x|> "
      "yes<|end|><|start|>assistant<|channel|>final<|message|>Two "
      "<|oops|> is less.";
  for (const std::size_t size : {1UL, 3UL, 11UL, text.size()}) {
    const MessageDelta message = parse(text, size);
    EXPECT_EQ(message.reasoning, "Is 2 < 3? <|x|> yes");
    EXPECT_EQ(message.content, "Two <|oops|> is less.");
    EXPECT_TRUE(message.calls.empty());
  }
}

TEST(ChannelParser, WhatIsAddressedToAToolIsACallOnEitherSideOfTheChannel) {
  for (const char* header : {"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>",
                             " to=functions.weather<|channel|>commentary json<|message|>",
                             "<|channel|>commentary to=functions.weather<|message|>"}) {
    for (const char* end : {"", "<|call|>"}) {
      const std::string text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" +
                               std::string(header) + "{\"city\": \"Bern\"}" + end;
      for (const std::size_t size : {1UL, text.size()}) {
        const MessageDelta message = parse(text, size);
        EXPECT_EQ(message.reasoning, "hm");
        EXPECT_EQ(message.content, "");
        ASSERT_EQ(message.calls.size(), 1U) << text;
        EXPECT_EQ(message.calls[0].name, "weather");
        EXPECT_EQ(message.calls[0].arguments, "{\"city\":\"Bern\"}");
      }
    }
  }
}

TEST(ChannelParser, APreambleIsContentAndACallWithoutArgumentsHasNone) {
  const MessageDelta message = parse(
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.now "
      "<|constrain|>json<|message|><|call|>",
      5);
  EXPECT_EQ(message.content, "I look.");
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.calls[0].arguments, "{}");
}

TEST(ChannelParser, TextWithoutHeadersIsContentAndAHeaderThatNeverEndsIsNothing) {
  EXPECT_EQ(parse("just text", 2).content, "just text");
  EXPECT_TRUE(parse("<|channel|>final", 2).empty());
  EXPECT_EQ(parse("<|channel|>final<|message|>cut <|en", 1).content, "cut <|en");
}

constexpr std::array<std::string_view, 6> kMarks{"<|start|>", "<|channel|>",   "<|message|>",
                                                 "<|end|>",   "<|constrain|>", "<|call|>"};

// A vocabulary of bytes, and of the marks as special tokens, as gpt-oss has them, or of bytes alone.
grammar::Matcher harmony_matcher(bool required, bool special_marks, bool several = false) {
  std::vector<std::string> spellings;
  for (int c = 0; c < 256; ++c) spellings.emplace_back(1, static_cast<char>(c));
  for (const std::string_view mark : kMarks)
    if (special_marks) spellings.push_back(grammar::kSpecialMark + std::string(mark));
  grammar::ToolGrammar wanted = find_tool_format("<|channel|>..<|message|>").grammar;
  wanted.required = required;
  wanted.several = several;
  wanted.tools = {{"weather",
                   R"({"type":"object","properties":{"city":{"enum":["Bern"]}},"required":["city"],)"
                   R"("additionalProperties":false})"}};
  return grammar::Matcher(grammar::from_tools(grammar::Vocabulary(spellings), wanted));
}

// Whether a grammar takes the text, byte by byte, its marks as tokens where `special_marks`.
bool takes(grammar::Matcher matcher, std::string_view text, bool special_marks) {
  while (!text.empty()) {
    std::int32_t id = static_cast<unsigned char>(text.front());
    std::size_t length = 1;
    for (std::size_t i = 0; i < kMarks.size() && special_marks; ++i)
      if (text.starts_with(kMarks[i])) id = 256 + static_cast<std::int32_t>(i), length = kMarks[i].size();
    if (!matcher.accept(id)) return false;
    text.remove_prefix(length);
  }
  return matcher.finished();
}

TEST(ChannelParser, ForcedCallsMayFollowAnalysisAndAreReadAsTheyAreWritten) {
  const std::string analysis = "<|channel|>analysis<|message|>Which city? {}<|end|><|start|>assistant";
  const std::string call =
      "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Bern\"}";
  const std::string answer = "<|channel|>final<|message|>Hello.";
  for (const std::string& front : {std::string(), analysis}) {
    const MessageDelta message = parse(front + call, 7);
    ASSERT_EQ(message.calls.size(), 1U);
    EXPECT_EQ(message.calls[0].name, "weather");
    EXPECT_EQ(message.calls[0].arguments, "{\"city\":\"Bern\"}");
    EXPECT_EQ(message.reasoning, front.empty() ? "" : "Which city? {}");
    for (const bool special : {false, true}) {
      EXPECT_TRUE(takes(harmony_matcher(true, special), front + call, special)) << front;
      EXPECT_FALSE(takes(harmony_matcher(true, special), front + answer, special)) << front;
      EXPECT_TRUE(takes(harmony_matcher(false, special), front + answer, special)) << front;
      EXPECT_TRUE(takes(harmony_matcher(false, special), front + call, special)) << front;
    }
  }
  const std::string other = "<|channel|>commentary to=functions.time <|constrain|>json<|message|>{}";
  const std::string next = "<|call|><|start|>assistant" + call;
  for (const bool special : {false, true}) {
    EXPECT_FALSE(takes(harmony_matcher(false, special), other, special));
    EXPECT_FALSE(takes(harmony_matcher(true, special, true), call + call, special));
    EXPECT_TRUE(takes(harmony_matcher(true, special, true), call + next, special));
    EXPECT_FALSE(takes(harmony_matcher(true, special, false), call + next, special));
  }
  EXPECT_FALSE(takes(harmony_matcher(true, true), call, false));  // marks that are spelled out
}

TEST(ChannelParser, TheTemplateTells) {
  EXPECT_TRUE(has_channels("<|start|>assistant<|channel|>final<|message|>"));
  EXPECT_FALSE(has_channels("<|channel>thought\n"));
}

}  // namespace
}  // namespace ingot::serve
