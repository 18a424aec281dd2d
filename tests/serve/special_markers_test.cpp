// Models whose thoughts and calls are marked by special tokens.
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/infer/scripted_model.h"
#include "tests/serve/running_server.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using ingot::test::scripted_id;
using test::Json;
using test::parsed;

constexpr std::int32_t kPad = 0, kBos = 2, kTurn = 3, kEnd = 4;

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  write_file_atomically(path, text);
}

// Calls special tokens of a scripted model by other names.
void rename_specials(const std::string& directory,
                     const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [from, to] : names)
    for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"})
      replace_in(directory + file, from, to);
}

// Writes "hm", </think>, "o", <tool|>, "k".
std::string write_thinking_model(const std::string& directory) {
  ingot::test::write_scripted_model(directory, {{scripted_id('>'), scripted_id('h')},
                                                {scripted_id('h'), scripted_id('m')},
                                                {scripted_id('m'), kBos},
                                                {kBos, scripted_id('o')},
                                                {scripted_id('o'), kPad},
                                                {kPad, scripted_id('k')},
                                                {scripted_id('k'), kEnd}});
  rename_specials(directory, {{"<pad>", "<tool|>"}, {"<bos>", "</think>"}});
  write_file_atomically(directory + "/chat_template.jinja",
                        "{% for m in messages %}<turn>{{ m.content }}<end>{% endfor %}<turn><think>");
  return directory;
}

// A call as Mistral's newer models write it: [TOOL_CALLS], "f", [ARGS], "{}".
std::string write_named_call_model(const std::string& directory) {
  ingot::test::write_scripted_model(directory, {{scripted_id('z'), kPad},
                                                {kPad, scripted_id('f')},
                                                {scripted_id('f'), kBos},
                                                {kBos, scripted_id('{')},
                                                {scripted_id('{'), scripted_id('}')},
                                                {scripted_id('}'), kEnd}});
  rename_specials(directory, {{"<pad>", "[TOOL_CALLS]"}, {"<bos>", "[ARGS]"}});
  write_file_atomically(directory + "/chat_template.jinja",
                        "{# [TOOL_CALLS] [ARGS] #}{% for m in messages %}{{ m.content }}<end>{% endfor %}z");
  return directory;
}

// Gemma 4's marks of calls and strings, around what is no call: <|tool_call>, "k:", <|"|>, "v", <tool_call|>.
std::string write_quoting_model(const std::string& directory) {
  ingot::test::write_scripted_model(directory, {{scripted_id('z'), kPad},
                                                {kPad, scripted_id('k')},
                                                {scripted_id('k'), scripted_id(':')},
                                                {scripted_id(':'), kTurn},
                                                {kTurn, scripted_id('v')},
                                                {scripted_id('v'), kBos},
                                                {kBos, kEnd}});
  rename_specials(directory, {{"<pad>", "<|tool_call>"}, {"<bos>", "<tool_call|>"}, {"<turn>", R"(<|\"|>)"}});
  write_file_atomically(directory + "/chat_template.jinja",
                        "{# <|tool_call> #}{% for m in messages %}{{ m.content }}<end>{% endfor %}z");
  return directory;
}

// Writes in harmony's channels, as gpt-oss does: its thoughts "hmok", where nothing ends them, and as its
// answer the same. Names of channels are tokens of their own.
std::string write_harmony_model(const std::string& directory) {
  const std::int32_t analysis = scripted_id('q'), final = scripted_id('z');
  ingot::test::write_scripted_model(directory, {{scripted_id('t'), kPad},
                                                {kPad, analysis},
                                                {analysis, kTurn},
                                                {final, kTurn},
                                                {kTurn, scripted_id('h')},
                                                {scripted_id('h'), scripted_id('m')},
                                                {scripted_id('m'), scripted_id('o')},
                                                {scripted_id('o'), scripted_id('k')},
                                                {scripted_id('k'), 1 /* <eos> */}});
  rename_specials(directory, {{"<pad>", "<|channel|>"},
                              {"<bos>", "<|start|>"},
                              {"<turn>", "<|message|>"},
                              {"<end>", "<|end|>"},
                              {"<eos>", "<|return|>"}});
  for (const auto& [letter, name] : {std::pair{"q", "analysis"}, {"z", "final"}}) {
    const std::string id = std::to_string(scripted_id(letter[0]));
    const std::string file = directory + "/tokenizer.json";
    replace_in(file, fmt::format(R"("{}":{})", letter, id), fmt::format(R"("{}":{})", name, id));
    replace_in(file, R"(],"normalizer")",
               fmt::format(R"(,{{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
                           R"("normalized":false,"special":false}}],"normalizer")",
                           id, name));
  }
  write_file_atomically(
      directory + "/chat_template.jinja",
      "{# <|channel|> #}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}"
      "{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}"
      "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}");
  return directory;
}

class ScriptedServer {
 public:
  explicit ScriptedServer(const std::string& model)
      : server_(options(model)),
        client_("http://127.0.0.1:" + std::to_string(server_.port()), std::chrono::seconds(20)) {}

  Json message(const Json& body) {
    return parsed(client_.post("/v1/chat/completions", body.dump()))["choices"][0]["message"];
  }

  HttpClient& client() { return client_; }

 private:
  static ServerOptions options(const std::string& model) {
    ServerOptions options;
    options.model.session.model = model;
    options.model.names = {"scripted"};
    options.access_log = false;
    return options;
  }

  const Server server_;
  HttpClient client_;
};

Json question() {
  return Json::parse(R"({"messages": [{"role": "user", "content": "hi"}], "temperature": 0})");
}

Json tool() { return Json::parse(R"([{"type": "function", "function": {"name": "f"}}])"); }

TEST(SpecialMarkers, ThatAreNoneOfThoughtsOrCallsAreNotShown) {
  const ingot::test::TemporaryDirectory folder;
  ScriptedServer server(write_thinking_model(folder.path()));
  Json body = question();
  EXPECT_EQ(server.message(body)["content"], "ok");
  EXPECT_EQ(server.message(body)["reasoning_content"], "hm");
  body["skip_special_tokens"] = false;
  EXPECT_EQ(server.message(body)["content"], "o<tool|>k");
}

TEST(SpecialMarkers, AtTheBeginAndInTheMiddleOfACallAreRead) {
  const ingot::test::TemporaryDirectory folder;
  ScriptedServer server(write_named_call_model(folder.path()));
  Json body = question();
  body["tools"] = tool();
  const Json function = server.message(body)["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "f");
  EXPECT_EQ(function["arguments"], "{}");
}

// As a model does that reads of calls in its history.
TEST(SpecialMarkers, OfACallStayInAnAnswerToARequestWithoutTools) {
  const ingot::test::TemporaryDirectory named, quoting;
  ScriptedServer first(write_named_call_model(named.path())), second(write_quoting_model(quoting.path()));
  Json body = question();
  EXPECT_EQ(first.message(body)["content"], "[TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(second.message(body)["content"], R"(<|tool_call>k:<|"|>v<tool_call|>)");
  body["tools"] = tool();
  body["tool_choice"] = "none";
  EXPECT_EQ(second.message(body)["content"], R"(<|tool_call>k:<|"|>v<tool_call|>)");
}

TEST(SpecialMarkers, AThinkingBudgetEndsTheThoughtsInEveryApi) {
  const ingot::test::TemporaryDirectory folder;
  ScriptedServer server(write_thinking_model(folder.path()));
  const Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const auto written = [&](const char* field, int budget) {
    const Json body{{"messages", messages}, {"temperature", 0}, {"max_tokens", 10}, {field, budget}};
    const Json message =
        parsed(server.client().post("/v1/chat/completions", body.dump()))["choices"][0]["message"];
    return message.value("reasoning_content", "") + "|" + message.value("content", "");
  };
  EXPECT_EQ(written("thinking_token_budget", -1), "hm|ok");
  EXPECT_EQ(written("thinking_token_budget", 2), "hm|ok");
  EXPECT_EQ(written("thinking_budget_tokens", 1), "h|ok");
  EXPECT_EQ(written("thinking_token_budget", 0), "|ok");
  const Json anthropic{{"messages", messages},
                       {"temperature", 0},
                       {"max_tokens", 10},
                       {"thinking", {{"type", "enabled"}, {"budget_tokens", 1}}}};
  const Json blocks = parsed(server.client().post("/v1/messages", anthropic.dump()))["content"];
  ASSERT_EQ(blocks.size(), 2U) << blocks;
  EXPECT_EQ(blocks[0]["thinking"], "h");
  EXPECT_EQ(blocks[1]["text"], "ok");
  const Json wrong{{"messages", messages}, {"thinking_token_budget", -2}};
  EXPECT_EQ(server.client().post("/v1/chat/completions", wrong.dump()).status, 400);
}

TEST(SpecialMarkers, AThinkingBudgetEndsTheAnalysisOfHarmonyAndTheAnswerFollows) {
  const ingot::test::TemporaryDirectory folder;
  ScriptedServer server(write_harmony_model(folder.path()));
  const auto written = [&](int budget, Json more = Json::object()) {
    Json body = question();
    body.update({{"max_tokens", 60}, {"thinking_token_budget", budget}});
    body.update(more);
    const Json message = server.message(body);
    const auto text = [&](const char* field) {
      return message.contains(field) && message[field].is_string() ? message[field].get<std::string>() : "";
    };
    return text("reasoning_content") + "|" + text("content");
  };
  EXPECT_EQ(written(-1), "hmok|");
  EXPECT_EQ(written(20), "hmok|");
  EXPECT_EQ(written(3), "hmo|hmok");
  EXPECT_EQ(written(1), "h|hmok");
  EXPECT_EQ(written(0), "|hmok");
  EXPECT_EQ(written(2, {{"structured_outputs", {{"choice", {"xyx", "no"}}}}}).substr(0, 3), "hm|");
  EXPECT_EQ(written(2, {{"structured_outputs", {{"regex", "m[xo]"}}}}), "hm|mo");
  Json stream = question();
  stream.update({{"stream", true}, {"thinking_token_budget", 1}, {"max_tokens", 60}});
  std::string thoughts, answer;
  for (const Json& event :
       test::events_of(server.client().post("/v1/chat/completions", stream.dump()).body)) {
    if (!event.is_object()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("reasoning_content")) thoughts += delta["reasoning_content"];
    if (delta.contains("content") && delta["content"].is_string()) answer += delta["content"];
  }
  EXPECT_EQ(thoughts + "|" + answer, "h|hmok");
}

}  // namespace
}  // namespace ingot::serve
