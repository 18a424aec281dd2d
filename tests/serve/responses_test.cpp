#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

ClientResponse respond(const RunningServer& server, Json body) {
  body.emplace("temperature", 0);
  return server.client().post("/v1/responses", body.dump());
}

const Json& response_tools() {
  static const Json kTools = Json::parse(R"([{"type":"function","name":"go","parameters":
      {"type":"object","properties":{"to":{"enum":["inn","bar"]}},"required":["to"],"additionalProperties":false}}])");
  return kTools;
}

TEST(Responses, AStringAndAListOfItemsAreAnswered) {
  const RunningServer server;
  const Json answer = parsed(respond(server, {{"input", "hi"}, {"instructions", "be kind"}}));
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["output"][0]["type"], "message");
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "one twz");
  EXPECT_EQ(answer["usage"]["output_tokens"], 7);
  const Json items = Json::parse(R"([{"role":"user","content":[{"type":"input_text","text":"hi"}]},
      {"type":"function_call","call_id":"c","name":"go","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":"done"}])");
  EXPECT_EQ(parsed(respond(server, {{"input", items}}))["output"][0]["content"][0]["text"], "one twz");
  const Json cut = parsed(respond(server, {{"input", "hi"}, {"max_output_tokens", 3}}));
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(Responses, AStreamsEventsTellEachItem) {
  const RunningServer server;
  std::string stream;
  const Json body = {{"input", "hi"}, {"temperature", 0}, {"stream", true}};
  server.client().post("/v1/responses", body.dump(), {}, [&](std::string_view piece) {
    stream += piece;
    return true;
  });
  std::vector<std::string> types;
  std::string text;
  Json last;
  for (std::size_t at = 0; (at = stream.find("data: ", at)) != stream.npos; ++at) {
    last = Json::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6));
    EXPECT_EQ(last["sequence_number"], types.size());
    if (last["type"] == "response.output_text.delta") text += last["delta"];
    types.push_back(last["type"]);
  }
  EXPECT_EQ(text, "one twz");
  std::erase(types, "response.output_text.delta");
  EXPECT_EQ(types, (std::vector<std::string>{"response.created", "response.in_progress",
                                             "response.output_item.added", "response.content_part.added",
                                             "response.output_text.done", "response.content_part.done",
                                             "response.output_item.done", "response.completed"}));
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "one twz");
}

TEST(Responses, ToolsAndSchemasAreForced) {
  const RunningServer server;
  const Json called = parsed(respond(server, {{"input", "hi"},
                                              {"tools", response_tools()},
                                              {"tool_choice", {{"type", "function"}, {"name", "go"}}}}));
  ASSERT_EQ(called["output"][0]["type"], "function_call") << called;
  EXPECT_EQ(called["output"][0]["name"], "go");
  EXPECT_TRUE(Json::parse(called["output"][0]["arguments"].get<std::string>()).contains("to"));
  const Json format = {{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", {{"type", "null"}}}}}};
  EXPECT_EQ(parsed(respond(server, {{"input", "hi"}, {"text", format}}))["output"][0]["content"][0]["text"],
            "null");
}

TEST(Responses, WhatWouldHaveToBeStoredIsRefused) {
  const RunningServer server;
  const auto param = [&](Json body) { return parsed(respond(server, std::move(body)))["error"]["param"]; };
  EXPECT_EQ(param({{"input", "hi"}, {"previous_response_id", "resp_1"}}), "previous_response_id");
  EXPECT_EQ(param({{"input", "hi"}, {"tools", {{{"type", "web_search"}}}}}), "tools");
  EXPECT_EQ(param({{"input", {{{"type", "item_reference"}}}}}), "input[0]");
  EXPECT_EQ(param(Json::object()), "input");
  EXPECT_EQ(respond(server, {{"input", {{{"type", 3}}}}}).status, 400);
}

}  // namespace
}  // namespace ingot::serve
