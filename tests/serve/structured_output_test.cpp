#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

ClientResponse ask(const RunningServer& server, Json more) {
  Json body = {
      {"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"temperature", 0}, {"max_tokens", 200}};
  body.update(more);
  return server.client().post("/v1/chat/completions", body.dump());
}

std::string content(const ClientResponse& response) {
  const Json answer = parsed(response);
  if (response.status != 200) return response.body;
  return answer["choices"][0]["message"]["content"].is_string() ? answer["choices"][0]["message"]["content"]
                                                                : Json("");
}

TEST(StructuredOutput, EachWayOfAskingForItIsFollowed) {
  const RunningServer server;
  const Json null_schema = {{"type", "null"}};
  const Json schema_format = {{"type", "json_schema"},
                              {"json_schema", {{"name", "n"}, {"schema", null_schema}}}};
  EXPECT_EQ(content(ask(server, {{"response_format", schema_format}})), "null");
  EXPECT_EQ(content(ask(server, {{"json_schema", null_schema}})), "null");
  EXPECT_EQ(content(ask(server, {{"guided_json", null_schema.dump()}})), "null");
  EXPECT_EQ(content(ask(server, {{"guided_regex", "z{3}"}})), "zzz");
  EXPECT_EQ(content(ask(server, {{"guided_choice", {"two", "three"}}})), "two");
  EXPECT_EQ(content(ask(server, {{"grammar", "root ::= \"b\" \"c\""}})), "bc");
  EXPECT_EQ(content(ask(server, {{"guided_grammar", "start: \"b\" \"c\""}})), "bc");
  EXPECT_EQ(content(ask(server, {{"structured_outputs", {{"regex", "[xy]{2}"}}}})), "xx");
  EXPECT_EQ(content(ask(server, {{"response_format", {{"type", "text"}}}})), "one twz");
  const std::string object =
      content(ask(server, {{"response_format", {{"type", "json_object"}}}, {"max_tokens", 60}}));
  EXPECT_TRUE(object.starts_with("{")) << object;
  const Json answer =
      parsed(ask(server, {{"guided_choice", {"abc", "abd"}}, {"n", 3}, {"temperature", 3}, {"seed", 1}}));
  ASSERT_EQ(answer["choices"].size(), 3U);
  for (const Json& choice : answer["choices"]) {
    EXPECT_TRUE(choice["message"]["content"] == "abc" || choice["message"]["content"] == "abd") << choice;
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
}

// A pattern whose compilation takes long, until it has too many alternatives; each number has one of its own.
std::string slow_pattern(int number) {
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += ".?";
  return pattern + std::to_string(number);
}

void send(HttpClient& client, const Json& body) {
  const std::string text = body.dump();
  client.send_raw("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                  std::to_string(text.size()) + "\r\n\r\n" + text);
}

// More of them than there are threads: each request is answered once its turn has come.
TEST(StructuredOutput, OthersAreAnsweredWhileSlowPatternsAreCompiled) {
  const RunningServer server({.compile = {.threads = 1}, .http = {.threads = 1}});
  ASSERT_EQ(content(ask(server, {{"guided_regex", "z{3}"}})), "zzz");
  constexpr int kSlow = 3;
  std::vector<HttpClient> clients;
  clients.reserve(kSlow);
  for (int i = 0; i < kSlow; ++i) {
    clients.push_back(server.client());
    send(clients.back(), {{"prompt", "x"}, {"max_tokens", 1}, {"guided_regex", slow_pattern(i)}});
  }
  std::atomic<int> answered = 0;
  std::vector<std::thread> waiting;
  waiting.reserve(kSlow);
  for (HttpClient& client : clients) {
    waiting.emplace_back([&] {
      static_cast<void>(client.receive());
      ++answered;
    });
  }
  EXPECT_EQ(server.client().get("/health").status, 200);
  EXPECT_EQ(content(ask(server, Json::object())), "one twz");
  EXPECT_EQ(content(ask(server, {{"guided_regex", "z{3}"}})), "zzz") << "which is compiled already";
  EXPECT_LT(answered, kSlow);
  for (std::thread& thread : waiting) thread.join();
}

// The third waits for two of them.
TEST(StructuredOutput, AGrammarThatTakesTooLongIsA400AndThoseThatWaitedAsLongAre503) {
  const RunningServer server({.compile = {.threads = 1}, .grammar_timeout = std::chrono::milliseconds(150)});
  constexpr int kSlow = 4;
  std::vector<HttpClient> clients;
  clients.reserve(kSlow);
  for (int i = 0; i < kSlow; ++i) {
    clients.push_back(server.client());
    send(clients.back(), {{"prompt", "x"}, {"max_tokens", 1}, {"guided_regex", slow_pattern(i)}});
  }
  int too_long = 0, waited = 0;
  for (HttpClient& client : clients) {
    const ClientResponse response = client.receive();
    const std::string message = parsed(response)["error"]["message"];
    if (response.status == 400 && message.find("takes longer than 0.15 s") != message.npos) ++too_long;
    if (response.status == 503 && message.find("for the grammars of others") != message.npos) ++waited;
    EXPECT_TRUE(response.status == 400 || response.status == 503) << response.body;
  }
  EXPECT_GE(too_long, 1);
  EXPECT_GE(waited, 1);
  EXPECT_EQ(too_long + waited, kSlow);
}

TEST(StructuredOutput, WhereTooManyGrammarsWaitToBeCompiledOneMoreIsToldToComeAgain) {
  const RunningServer server({.compile = {.threads = 1, .most_waiting = 0}});
  const ClientResponse refused = ask(server, {{"guided_regex", "z{3}"}});
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(parsed(refused)["error"]["code"], "queue_full");
  EXPECT_EQ(content(ask(server, Json::object())), "one twz");
}

TEST(StructuredOutput, ABadSchemaIsA400ThatNamesKeywordAndPointer) {
  const RunningServer server;
  const auto error = [&](Json more) {
    const ClientResponse response = ask(server, more);
    EXPECT_EQ(response.status, 400) << response.body;
    return parsed(response)["error"]["message"].get<std::string>();
  };
  const Json unique = {{"properties", {{"a", {{"type", "array"}, {"uniqueItems", true}}}}}};
  const std::string message =
      error({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", unique}}}}}});
  EXPECT_NE(message.find("'uniqueItems' at #/properties/a/uniqueItems"), message.npos) << message;
  EXPECT_NE(error({{"grammar", "root ::= x"}}).find("line 1, column 10"), std::string::npos);
  EXPECT_NE(error({{"guided_regex", "("}}).find("regex"), std::string::npos);
  EXPECT_NE(error({{"guided_regex", "a"}, {"guided_choice", {"a"}}}).find("cannot stand beside"),
            std::string::npos);
  EXPECT_NE(error({{"response_format", {{"type", "yaml"}}}}).find("json_schema"), std::string::npos);
  EXPECT_NE(error({{"guided_regex", "("}, {"stream", true}}).find("regex"), std::string::npos);
  const Json ollama{{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"format", unique}};
  EXPECT_TRUE(parsed(server.client().post("/api/chat", ollama.dump()))["error"].is_string());
}

const Json& tools() {
  static const Json kTools = Json::parse(R"([{"type":"function","function":{"name":"go","parameters":
      {"type":"object","properties":{"to":{"enum":["inn","bar"]}},"required":["to"],"additionalProperties":false}}},
      {"type":"function","function":{"name":"ask"}}])");
  return kTools;
}

TEST(StructuredOutput, ForcedToolsAreCalledWithArgumentsThatSatisfyTheirSchema) {
  const RunningServer server;
  const Json named = {{"type", "function"}, {"function", {{"name", "go"}}}};
  const Json answer = parsed(ask(server, {{"tools", tools()}, {"tool_choice", named}}));
  const Json& choice = answer["choices"][0];
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << answer;
  const Json& call = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "go");
  const Json arguments = Json::parse(call["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["to"] == "inn" || arguments["to"] == "bar") << arguments;
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json any =
      parsed(ask(server, {{"tools", tools()}, {"tool_choice", "required"}, {"parallel_tool_calls", false}}));
  EXPECT_GE(any["choices"][0]["message"].value("tool_calls", Json::array()).size(), 1U) << any;
  EXPECT_EQ(ask(server,
                {{"tools", tools()}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "x"}}}}}})
                .status,
            400);
  EXPECT_EQ(content(ask(server, {{"tools", tools()}})), "one twz");
}

TEST(StructuredOutput, OllamaAndAnthropicAskInTheirOwnWords) {
  const RunningServer server;
  Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
               {"stream", false},
               {"format", {{"type", "null"}}},
               {"options", {{"temperature", 0}}}};
  EXPECT_EQ(parsed(server.client().post("/api/chat", body.dump()))["message"]["content"], "null");
  body = {{"max_tokens", 200},
          {"temperature", 0},
          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
          {"tools", {{{"name", "go"}, {"input_schema", tools()[0]["function"]["parameters"]}}}},
          {"tool_choice", {{"type", "tool"}, {"name", "go"}}}};
  const ClientResponse response = server.client().post("/v1/messages", body.dump());
  const Json answer = parsed(response);
  ASSERT_EQ(answer["stop_reason"], "tool_use") << response.body;
  EXPECT_EQ(answer["content"][0]["name"], "go");
}

}  // namespace
}  // namespace ingot::serve
