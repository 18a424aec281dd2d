#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

std::string stream_of(const RunningServer& server, const std::string& path, const Json& body) {
  std::string stream;
  server.client().post(path, body.dump(), {}, [&](std::string_view piece) {
    stream += piece;
    return true;
  });
  return stream;
}

const Json kHello = {{"model", "scripted"},
                     {"messages", {{{"role", "user"}, {"content", "hi"}}}},
                     {"temperature", 0},
                     {"max_tokens", 50}};

TEST(MessagesApi, AnswersInBlocks) {
  const RunningServer server;
  const Json answer = parsed(server.client().post("/v1/messages", kHello.dump()));
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["content"], (Json::array({{{"type", "text"}, {"text", "one twz"}}})));
  EXPECT_EQ(answer["stop_reason"], "end_turn");
  EXPECT_EQ(answer["usage"]["output_tokens"], 7);
  Json stopped = kHello;
  stopped["stop_sequences"] = {" tw"};
  EXPECT_EQ(parsed(server.client().post("/v1/messages", stopped.dump()))["stop_reason"], "stop_sequence");
}

TEST(MessagesApi, StreamsEventsInTheirOrder) {
  const RunningServer server;
  Json body = kHello;
  body["stream"] = true;
  body["system"] = {{{"type", "text"}, {"text", "be brief"}}};
  const std::string stream = stream_of(server, "/v1/messages", body);
  std::vector<std::string> types;
  std::string text;
  for (std::size_t at = 0; (at = stream.find("data: ", at)) != stream.npos; at += 6) {
    const Json event = Json::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6));
    EXPECT_TRUE(stream.substr(0, at).ends_with("event: " + event["type"].get<std::string>() + "\n"));
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
    if (event["type"] == "content_block_delta") text += event["delta"]["text"];
  }
  EXPECT_EQ(text, "one twz");
  EXPECT_EQ(types, (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                             "content_block_stop", "message_delta", "message_stop"}));
}

TEST(MessagesApi, CountsTokensAndSaysWhatIsWrongInItsOwnShape) {
  const RunningServer server;
  HttpClient client = server.client();
  const int counted = parsed(client.post("/v1/messages/count_tokens", kHello.dump()))["input_tokens"];
  EXPECT_EQ(parsed(client.post("/v1/messages", kHello.dump()))["usage"]["input_tokens"], counted);
  Json body = kHello;
  body.erase("max_tokens");
  const ClientResponse refused = client.post("/v1/messages", body.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(parsed(refused)["type"], "error");
  EXPECT_EQ(parsed(refused)["error"]["type"], "invalid_request_error");
  body = kHello;
  body["model"] = "other";
  EXPECT_EQ(parsed(client.post("/v1/messages", body.dump()))["error"]["type"], "not_found_error");
}

TEST(MessagesApi, RefusesRolesAndChoicesOfToolsThatItDoesNotHave) {
  const RunningServer server;
  HttpClient client = server.client();
  const auto refusal = [&](const Json& changes) {
    Json body = kHello;
    body.update(changes);
    const ClientResponse refused = client.post("/v1/messages/count_tokens", body.dump());
    EXPECT_EQ(refused.status, 400) << body;
    return parsed(refused)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(refusal({{"messages", {{{"role", "tester"}, {"content", "hi"}}}}}),
            "'messages[0].role' must be user or assistant, got 'tester'");
  EXPECT_EQ(refusal({{"messages", {{{"role", "system"}, {"content", "hi"}}}}}),
            "'messages[0].role' is 'system'; the field 'system' of the request holds that");
  EXPECT_EQ(refusal({{"tool_choice", Json::object()}}), "'tool_choice.type' must be auto, any, none or tool");
  EXPECT_EQ(refusal({{"tool_choice", {{"type", "tool"}, {"name", 3}}}}),
            "a field of the request has the wrong type: type must be string, but is number");
}

TEST(OllamaApi, StreamsLinesUnlessToldOtherwise) {
  const RunningServer server;
  Json body = kHello;
  body["options"] = {{"temperature", 0}, {"num_predict", 50}};
  const std::string stream = stream_of(server, "/api/chat", body);
  std::string text;
  Json last;
  for (std::size_t at = 0; at < stream.size(); at = stream.find('\n', at) + 1) {
    last = Json::parse(stream.substr(at, stream.find('\n', at) - at));
    text += last["message"]["content"];
  }
  EXPECT_EQ(text, "one twz");
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["eval_count"], 7);
  body["stream"] = false;
  const Json whole = parsed(server.client().post("/api/chat", body.dump()));
  EXPECT_EQ(whole["message"]["content"], "one twz");
  EXPECT_EQ(whole["done_reason"], "stop");
}

TEST(OllamaApi, GeneratesFromPromptsWithTheTemplateOrRaw) {
  const RunningServer server;
  Json body = {
      {"model", "gpt-test:latest"}, {"prompt", "hi"}, {"stream", false}, {"options", {{"temperature", 0}}}};
  EXPECT_EQ(parsed(server.client().post("/api/generate", body.dump()))["response"], "one twz");
  body["raw"] = true;
  body["prompt"] = "<turn>o";
  EXPECT_EQ(parsed(server.client().post("/api/generate", body.dump()))["response"], "ne twz");
  EXPECT_EQ(parsed(server.client().get("/api/tags"))["models"][0]["name"], "scripted");
  body["model"] = "other";
  EXPECT_EQ(server.client().post("/api/generate", body.dump()).status, 404);
  EXPECT_EQ(server.client().post("/api/show", R"({"model":"scripted"})").status, 200);
}

}  // namespace
}  // namespace ingot::serve
