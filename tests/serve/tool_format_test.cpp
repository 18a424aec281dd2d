#include "ingot/serve/tool_format.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_trie.h"
#include "ingot/serve/message_parser.h"

namespace ingot::serve {
namespace {

using Json = nlohmann::ordered_json;

// A piece of a family's chat template, a message with calls of `weather` and `time`, and what they are.
struct FormatCase {
  const char *name, *chat_template, *message;
  const char* written = nullptr;  // as a grammar writes it, where models write ids too
};

const FormatCase kFormats[] = {
    {"hermes", "",
     "Look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\", \"days\": "
     "3}}\n</tool_call>\n"
     "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>"},
    {"llama", "dictionary of argument name and its value",
     "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bern\", \"days\": 3}}; {\"name\": \"time\", "
     "\"parameters\": {}}"},
    {"qwen3-coder", "<function=example>",
     "Look.\n<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=time>\n</function>\n</tool_call>"},
    {"glm", "<arg_key>{arg-key-1}</arg_key>",
     "Look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>days</"
     "arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>time\n</tool_call>"},
    {"mistral", "'[TOOL_CALLS]' + name + '[ARGS]'",
     "Look.[TOOL_CALLS]weather[ARGS]{\"city\": \"Bern\", \"days\": "
     "3}[TOOL_CALLS]time[CALL_ID]a1b2c3d4e[ARGS]{}",
     "Look.[TOOL_CALLS]weather[ARGS]{\"city\": \"Bern\", \"days\": 3}[TOOL_CALLS]time[ARGS]{}"},
    {"mistral-list", "'[TOOL_CALLS] ['",
     "Look.[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 3}}, "
     "{\"name\": \"time\", \"arguments\": {}, \"id\": \"a1b2c3d4e\"}]",
     "Look.[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 3}}, "
     "{\"name\": \"time\", \"arguments\": {}}]"},
    {"deepseek-3", "'<｜tool▁calls▁begin｜>' + '```json'",
     "Look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": "
     "\"Bern\", "
     "\"days\": 3}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>time\n```json\n{}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek-3.1", "'<｜tool▁calls▁begin｜>'",
     "Look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Bern\", \"days\": 3}"
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"functiongemma", "<start_function_call>",
     "Look.<start_function_call>call:weather{city:<escape>Bern<escape>,days:3}<end_function_call>"
     "<start_function_call>call:time{}<end_function_call>"},
    {"gemma-4", "<|tool_call>",
     "Look.<|tool_call>call:weather{city:<|\"|>Bern<|\"|>,days:3}<tool_call|><|tool_call>call:time{}<tool_"
     "call|>"},
    {"phi", "<|tool_call|><|/tool_call|>",
     "Look.<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 3}}, "
     "{\"name\": \"time\", "
     "\"arguments\": {}}]<|/tool_call|>"},
    {"granite", "<|tool_call|>",
     "Look.<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 3}}, "
     "{\"name\": \"time\", \"arguments\": {}}]"},
    {"command", "<|START_ACTION|>",
     "Look.<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": "
     "{\"city\": \"Bern\", "
     "\"days\": 3}}, {\"tool_call_id\": \"1\", \"tool_name\": \"time\", \"parameters\": "
     "{}}\n]<|END_ACTION|>",
     "Look.<|START_ACTION|>[{\"tool_name\": \"weather\", \"parameters\": {\"city\": \"Bern\", \"days\": 3}}, "
     "{\"tool_name\": \"time\", \"parameters\": {}}]<|END_ACTION|>"},
};

class ToolFormats : public testing::TestWithParam<FormatCase> {
 protected:
  const ToolFormat& format() const { return find_tool_format(GetParam().chat_template); }
  MessageDelta parse(const std::string& text, std::size_t size) const {
    MessageParser parser({.tools = &format(), .json_parameters = {{"weather", "days"}}});
    MessageDelta all;
    const auto add = [&](const MessageDelta& delta) {
      all.content += delta.content;
      all.calls.insert(all.calls.end(), delta.calls.begin(), delta.calls.end());
    };
    for (std::size_t at = 0; at < text.size(); at += size) add(parser.push(text.substr(at, size)));
    add(parser.finish());
    return all;
  }
};

TEST_P(ToolFormats, CallsAreReadWhereverThePiecesBegin) {
  const FormatCase& form_case = GetParam();
  const std::string text = form_case.message;
  for (const std::size_t size : {1UL, 3UL, 16UL, text.size()}) {
    const MessageDelta message = parse(text, size);
    ASSERT_EQ(message.calls.size(), 2U) << message.content;
    EXPECT_EQ(message.calls[0].name, "weather");
    EXPECT_EQ(message.calls[0].arguments, R"({"city":"Bern","days":3})");
    EXPECT_EQ(message.calls[1].name, "time");
    EXPECT_EQ(message.calls[1].arguments, "{}");
    EXPECT_EQ(message.content.substr(0, 5), text.starts_with("Look.") ? "Look." : "");
  }
}

TEST_P(ToolFormats, NothingIsLostOfACallThatBreaksOff) {
  const std::string text = GetParam().message;
  for (std::size_t length = 0; length < text.size(); ++length) {
    const MessageDelta message = parse(text.substr(0, length), 5);
    if (!message.calls.empty()) continue;
    const std::string_view start = std::string_view(text).substr(0, length);
    EXPECT_EQ(message.content, start) << length;
  }
}

TEST_P(ToolFormats, WhatTheGrammarWritesIsReadAsTheSameCalls) {
  std::vector<std::string> letters;
  letters.reserve(256);
  for (int c = 0; c < 256; ++c) letters.emplace_back(1, static_cast<char>(c));
  const grammar::Vocabulary vocabulary(letters);
  grammar::ToolGrammar wanted = format().grammar;
  wanted.required = true;
  const char* schema =
      R"({"type":"object","properties":{"city":{"type":"string","enum":["Bern","Chur"]},)"
      R"("days":{"type":"integer"}},"required":["city","days"],"additionalProperties":false})";
  const char* nothing = R"({"type":"object","additionalProperties":false})";
  wanted.tools = {{"weather", schema}, {"time", nothing}};
  const grammar::GrammarPtr grammar = grammar::from_tools(vocabulary, wanted);
  const std::string text = GetParam().written != nullptr ? GetParam().written : GetParam().message;
  const std::size_t begin = text.starts_with("Look.") ? text.find_first_not_of("\n", 5) : 0;
  grammar::Matcher known(grammar);
  EXPECT_TRUE(known.accept_text(text.substr(begin))) << text;
  EXPECT_TRUE(known.finished());
  wanted.tools[0].parameters = R"({"type":"object","properties":{"city":{"enum":["Chur"]}}})";
  grammar::Matcher other(grammar::from_tools(vocabulary, wanted));
  EXPECT_FALSE(other.accept_text(text.substr(begin)) && other.finished());
  wanted.required = false;
  wanted.tools[0].parameters = schema;
  grammar::Matcher free(grammar::from_tools(vocabulary, wanted));
  EXPECT_TRUE(free.accept_text(text) && free.finished()) << text;
  grammar::Matcher words(grammar::from_tools(vocabulary, wanted));
  EXPECT_TRUE(words.accept_text("no call at all") && words.finished());
}

INSTANTIATE_TEST_SUITE_P(All, ToolFormats, testing::ValuesIn(kFormats), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

// A tool gets the words of the model: Arabic and Hebrew texts hold marks of direction.
TEST(ToolFormat, ArgumentsKeepTheirCharacters) {
  const std::string marked = "\u0633\u200f\u061c!";
  const ToolFormat& json = find_tool_format("");
  const auto calls = json.read(R"({"name": "say", "arguments": {"text": ")" + marked + R"("}})", json, {});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].arguments, R"({"text":")" + marked + R"("})");
  const ToolFormat& gemma = find_tool_format("<start_function_call>");
  const auto other = gemma.read("call:say{text:<escape>" + marked + "<escape>}", gemma, {});
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].arguments, R"({"text":")" + marked + R"("})");
}

TEST(ToolFormat, GemmaValuesBecomeJson) {
  const ToolFormat& format = find_tool_format("<start_function_call>");
  const auto arguments = [&](const std::string& text) {
    const auto calls = format.read("call:f" + text, format, {});
    return calls.empty() ? "none" : calls[0].arguments;
  };
  EXPECT_EQ(arguments("{a:{b:[1,true,null,<escape>x,\"}<escape>]},c:-2.5}"),
            R"({"a":{"b":[1,true,null,"x,\"}"]},"c":-2.5})");
  for (const char* broken : {"", "{", "{a:}", "{a:<escape>b}", "{a:1}}", "{a 1}", "[1]"})
    EXPECT_EQ(arguments(broken), "none") << broken;
  std::string deep = "{a:";
  for (int i = 0; i < 5000; ++i) deep += '[';
  EXPECT_EQ(arguments(deep), "none");
}

// Gemma 4's grammar of a tool with this schema; its marks are special tokens, ids 256 and up.
grammar::GrammarPtr gemma_call(const std::string& schema) {
  std::vector<std::string> spellings;
  for (int c = 0; c < 256; ++c) spellings.emplace_back(1, static_cast<char>(c));
  for (const char* mark : {"<|tool_call>", "<tool_call|>", "<|\"|>"})
    spellings.push_back(std::string(1, grammar::kSpecialMark) + mark);
  grammar::ToolGrammar wanted = find_tool_format("<|tool_call>").grammar;
  wanted.required = true;
  wanted.tools = {{"f", schema}};
  return grammar::from_tools(grammar::Vocabulary(std::move(spellings)), wanted);
}

// Whether the grammar takes a call with these arguments; ~ stands for the mark around strings.
bool takes_arguments(const grammar::GrammarPtr& grammar, const std::string& arguments) {
  grammar::Matcher matcher(grammar);
  if (!matcher.accept(256) || !matcher.accept_text("call:f")) return false;
  for (const char c : arguments)
    if (!matcher.accept(c == '~' ? 258 : static_cast<unsigned char>(c))) return false;
  return matcher.accept(257) && matcher.finished();
}

TEST(ToolFormat, GemmaArgumentsFollowTheSchemaInItsSpelling) {
  const auto grammar = gemma_call(
      R"({"type":"object","properties":{"note":{"type":"string","pattern":"^a.*\"$"},)"
      R"("when":{"type":"object","properties":{"unit":{"enum":["day","a \"week\""]},"n":{"type":"integer"}},)"
      R"("required":["unit"],"additionalProperties":false},"tags":{"type":"array","items":{"type":"string"}},)"
      R"("odd key,":{"type":["null","boolean"]}},"required":["note"],"additionalProperties":false})");
  EXPECT_TRUE(takes_arguments(grammar, "{note:~a \\ \t\"~}"));
  EXPECT_TRUE(takes_arguments(grammar, "{note:~a\"~,when:{unit:~a \"week\"~,n:-3},tags:[],~odd key,~:null}"));
  EXPECT_TRUE(takes_arguments(grammar, "{note:~a\"~,tags:[~~,~x}]~]}"));
  for (const char* wrong :
       {"{}", "{note:~b\"~}", "{note:\"a\"}", "{\"note\":~a\"~}", "{~note~:~a\"~}",
        "{note:~a\"~,odd key,:null}", "{note:~a\"~,when:{unit:~month~}}", "{note:~a\"~,when:{unit:day}}",
        "{note:~a\"~,tags:~x~}", "{note:~a\"~,more:1}", "{note:~a<|\"|>\"~}"})
    EXPECT_FALSE(takes_arguments(grammar, wrong)) << wrong;
  const auto open = gemma_call("");
  EXPECT_TRUE(takes_arguments(open, "{any_key:{b:[~x~,1.5,true]},~c d~:{}}"));
  EXPECT_FALSE(takes_arguments(open, "{c d:1}"));
}

TEST(ToolFormat, ReasoningIsMarkedAsItsTemplateSays) {
  EXPECT_EQ(find_thoughts("a <think> b").end, "</think>");
  EXPECT_EQ(find_thoughts("[THINK]").end, "[/THINK]");
  EXPECT_TRUE(find_thoughts("none").end.empty());
}

}  // namespace
}  // namespace ingot::serve
