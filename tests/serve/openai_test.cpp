#include <algorithm>
#include <thread>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/serve/api.h"

namespace ingot::serve {
namespace {

using test::events_of;
using test::Json;
using test::parsed;
using test::RunningServer;

Json chat_request(Json more = Json::object()) {
  Json body = {{"model", "scripted"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  body.update(more);
  return body;
}

ClientResponse post(const RunningServer& server, const std::string& path, const Json& body) {
  return server.client().post(path, body.dump());
}

TEST(ChatCompletions, AnswerAtOnceHasTheShapeThatClientsExpect) {
  const RunningServer server;
  const ClientResponse response = post(server, "/v1/chat/completions", chat_request({{"temperature", 0}}));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = parsed(response);
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "scripted");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"], (Json{{"role", "assistant"}, {"content", "one twz"}}));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"], nullptr);
  const Json& usage = answer["usage"];
  EXPECT_EQ(usage["completion_tokens"], 7);
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + 7);
}

TEST(ChatCompletions, AStreamGivesTheSameTextThenUsageThenDone) {
  const RunningServer server;
  std::string stream;
  const ClientResponse response = server.client().post(
      "/v1/chat/completions",
      chat_request({{"temperature", 0}, {"stream", true}, {"stream_options", {{"include_usage", true}}}})
          .dump(),
      {}, [&](std::string_view piece) {
        stream += piece;
        return true;
      });
  ASSERT_EQ(response.status, 200);
  const std::vector<Json> events = events_of(stream);
  ASSERT_GE(events.size(), 5U);
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.back(), "[DONE]");
  const Json& usage = events[events.size() - 2];
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 7);
  const Json& last = events[events.size() - 3];
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(last["choices"][0]["delta"].empty());
  std::string text;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_EQ(events[i]["usage"], nullptr);
    text += events[i]["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, "one twz");
}

TEST(ChatCompletions, AnAnswerThatIsNotCompleteInItsTimeIsAnError) {
  const RunningServer server;
  const Json hurried = {{"timeout", 1e-9}, {"priority", 3}};
  const ClientResponse whole = post(server, "/v1/chat/completions", chat_request(hurried));
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(parsed(whole)["error"]["code"], "timeout");
  std::string stream;
  Json streamed = chat_request(hurried);
  streamed["stream"] = true;
  server.client().post("/v1/chat/completions", streamed.dump(), {}, [&](std::string_view piece) {
    stream += piece;
    return true;
  });
  EXPECT_NE(stream.find("\"timeout\""), std::string::npos) << stream;
  EXPECT_EQ(post(server, "/v1/chat/completions", chat_request({{"timeout", 60}})).status, 200);
  for (const Json& wrong : {Json{{"timeout", 0}}, Json{{"timeout", "soon"}}, Json{{"priority", 0.5}}})
    EXPECT_EQ(post(server, "/v1/chat/completions", chat_request(wrong)).status, 400) << wrong;
}

TEST(ChatCompletions, StopStringsEndTheTextAndMaxTokensCutsIt) {
  const RunningServer server;
  const auto choice = [&](Json more) {
    more["temperature"] = 0;
    return parsed(post(server, "/v1/chat/completions", chat_request(more)))["choices"][0];
  };
  EXPECT_EQ(choice({{"stop", " tw"}})["message"]["content"], "one");
  EXPECT_EQ(choice({{"stop", {"zz", "e t"}}})["message"]["content"], "on");
  EXPECT_EQ(choice({{"max_completion_tokens", 2}})["finish_reason"], "length");
  EXPECT_EQ(choice({{"stop_token_ids", {ingot::test::scripted_id('e')}}})["message"]["content"], "on");
  EXPECT_EQ(choice({{"logit_bias", {{std::to_string(ingot::test::scripted_id('n')), -100}}},
                    {"max_tokens", 2}})["message"]["content"]
                .get<std::string>()
                .substr(0, 1),
            "o");
}

TEST(ChatCompletions, WhatEndsATextIsPartOfItWhereAskedFor) {
  const RunningServer server;
  for (const bool stream : {false, true}) {
    const auto content = [&](Json more) {
      more.update({{"temperature", 0}, {"stream", stream}, {"include_stop_str_in_output", true}});
      const ClientResponse response = post(server, "/v1/chat/completions", chat_request(more));
      if (!stream) return parsed(response)["choices"][0]["message"]["content"].get<std::string>();
      std::string text;
      for (const Json& each : test::events_of(response.body))
        if (each.is_object()) text += each["choices"][0]["delta"].value("content", "");
      return text;
    };
    EXPECT_EQ(content({{"stop", " tw"}}), "one tw");
    EXPECT_EQ(content({{"stop_token_ids", {ingot::test::scripted_id('e')}}}), "one");
    EXPECT_EQ(content({}), "one twz");  // its end token is special, and shows nothing
    EXPECT_EQ(content({{"skip_special_tokens", false}}), "one twz<end>");
  }
}

TEST(ChatCompletions, AllowedTokenIdsAloneAreWritten) {
  const RunningServer server;
  const Json allowed{ingot::test::scripted_id('x'), ingot::test::scripted_id('y')};
  const Json answer =
      parsed(post(server, "/v1/chat/completions",
                  chat_request({{"allowed_token_ids", allowed}, {"max_tokens", 20}, {"temperature", 3}})));
  const std::string text = answer["choices"][0]["message"]["content"];
  EXPECT_EQ(text.size(), 20U);
  EXPECT_EQ(text.find_first_not_of("xy"), text.npos) << text;
  for (const Json& wrong : {Json::array(), Json("a"), Json::array({-1})})
    EXPECT_EQ(post(server, "/v1/chat/completions", chat_request({{"allowed_token_ids", wrong}})).status, 400);
}

TEST(ChatCompletions, AnswersThatRuleOutEveryTokenAreTheRequestsFault) {
  const RunningServer server;
  const Json letters = Json::array({ingot::test::scripted_id('x')});
  const auto answer =
      post(server, "/v1/chat/completions",
           chat_request({{"allowed_token_ids", letters}, {"structured_outputs", {{"regex", "y+"}}}}));
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(parsed(answer)["error"]["code"], "no_token_left");
  EXPECT_NE(answer.body.find("grammar"), std::string::npos) << answer.body;
}

TEST(ChatCompletions, AStreamsPiecesHaveAsManyTokensAsTheIntervalAsksFor) {
  ServerOptions options;
  options.stream_interval = 3;
  const RunningServer server(options);
  const auto pieces = [&](Json more) {
    more.update({{"stream", true}, {"ignore_eos", true}, {"max_tokens", 11}, {"temperature", 0}, {"n", 2}});
    std::vector<std::string> found;
    for (const Json& each : test::events_of(post(server, "/v1/chat/completions", chat_request(more)).body))
      if (each.is_object() && each["choices"][0]["index"] == 1 &&
          each["choices"][0]["delta"].contains("content") && each["choices"][0]["delta"]["content"] != "")
        found.push_back(each["choices"][0]["delta"]["content"]);
    return found;
  };
  const auto sizes = [](const std::vector<std::string>& texts) {
    std::vector<std::size_t> sizes;
    for (const std::string& text : texts) sizes.push_back(text.size());
    return sizes;
  };
  const Json letters = Json::array({ingot::test::scripted_id('x')});
  EXPECT_EQ(sizes(pieces({{"allowed_token_ids", letters}})), (std::vector<std::size_t>{1, 3, 3, 3, 1}));
  EXPECT_EQ(sizes(pieces({{"allowed_token_ids", letters}, {"stream_interval", 6}})),
            (std::vector<std::size_t>{1, 6, 4}));
  EXPECT_EQ(sizes(pieces({{"allowed_token_ids", letters}, {"stream_interval", 1}})),
            std::vector<std::size_t>(11, 1));
  EXPECT_EQ(post(server, "/v1/chat/completions", chat_request({{"stream_interval", 0}})).status, 400);
}

TEST(ChatCompletions, TheBestOfSeveralAreThoseOfTheMostProbableTokens) {
  const RunningServer server;
  for (const int seed : {1, 2, 3}) {
    const Json request{{"prompt", {"on", "tw"}},      {"max_tokens", 5}, {"seed", seed}, {"temperature", 1.5},
                       {"stop", Json::array({"zz"})}, {"n", 6},          {"logprobs", 0}};
    const Json all = parsed(post(server, "/v1/completions", request));
    Json best = request;
    best.update({{"n", 2}, {"best_of", 6}});
    const Json few = parsed(post(server, "/v1/completions", best));
    ASSERT_EQ(few["choices"].size(), 4U);
    EXPECT_EQ(few["usage"]["completion_tokens"], all["usage"]["completion_tokens"])
        << "all of them were written";
    best.erase("logprobs");
    EXPECT_TRUE(parsed(post(server, "/v1/completions", best))["choices"][0]["logprobs"].is_null());
    for (std::size_t prompt = 0; prompt < 2; ++prompt) {
      std::vector<std::pair<double, std::string>> ranked;
      for (std::size_t i = 6 * prompt; i < 6 * prompt + 6; ++i) {
        double sum = 0;
        const Json& of = all["choices"][i]["logprobs"]["token_logprobs"];
        for (const Json& each : of) sum += each.get<double>();
        ranked.emplace_back(-sum / static_cast<double>(of.size()), all["choices"][i]["text"]);
      }
      std::ranges::stable_sort(ranked, {}, &std::pair<double, std::string>::first);
      for (std::size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(few["choices"][2 * prompt + k]["text"], ranked[k].second);
        EXPECT_EQ(few["choices"][2 * prompt + k]["index"], 2 * prompt + k);
      }
    }
  }
  for (const Json& wrong :
       {Json{{"n", 3}, {"best_of", 2}}, Json{{"best_of", 17}}, Json{{"best_of", 2}, {"stream", true}}})
    EXPECT_EQ(post(server, "/v1/chat/completions", chat_request(wrong)).status, 400) << wrong;
}

TEST(ChatCompletions, ChoicesDifferAndASeedGivesThemAgain) {
  const RunningServer server;
  const Json body = chat_request({{"n", 3},
                                  {"seed", 7},
                                  {"temperature", 5},
                                  {"max_tokens", 12},
                                  {"ignore_eos", true},
                                  {"logprobs", true}});
  const Json first = parsed(post(server, "/v1/chat/completions", body));
  const Json second = parsed(post(server, "/v1/chat/completions", body));
  ASSERT_EQ(first["choices"].size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    EXPECT_EQ(first["choices"][i]["message"], second["choices"][i]["message"]);
  }
  EXPECT_NE(first["choices"][0]["message"], first["choices"][1]["message"]);
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(ChatCompletions, LogprobsNameEachTokenWithItsBytesAndAlternatives) {
  const RunningServer server;
  const Json answer =
      parsed(post(server, "/v1/chat/completions",
                  chat_request({{"temperature", 0}, {"logprobs", true}, {"top_logprobs", 2}})));
  const Json& content = answer["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 7U);
  EXPECT_EQ(content[0]["token"], "o");
  EXPECT_EQ(content[0]["bytes"], Json::array({'o'}));
  EXPECT_LE(content[0]["logprob"], 0);
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "o");
}

TEST(ChatCompletions, PartsOfTextAndToolsReachTheTemplate) {
  const RunningServer server;
  const Json prompt = parsed(
      post(server, "/apply-template",
           {{"messages",
             {{{"role", "developer"}, {"content", "be brief"}},
              {{"role", "user"},
               {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}}));
  EXPECT_EQ(prompt["prompt"], "<bos><turn>system be brief <end>\n<turn>user ab <end>\n<turn>");
}

TEST(Completions, PromptsAreStringsListsAndIds) {
  const RunningServer server;
  const Json options = {{"max_tokens", 5}, {"temperature", 0}};
  const auto texts = [&](Json more) {
    more.update(options);
    std::vector<std::string> result;
    const ClientResponse response = post(server, "/v1/completions", more);
    EXPECT_EQ(response.status, 200) << response.body;
    const Json answer = parsed(response);
    for (const Json& choice : answer["choices"]) result.push_back(choice["text"]);
    return result;
  };
  const std::string alone = texts({{"prompt", "<turn>"}}).at(0);
  EXPECT_EQ(alone, "one t");
  EXPECT_EQ(texts({{"prompt", {"<turn>", "<turn>o"}}}), (std::vector<std::string>{alone, "ne tw"}));
  EXPECT_EQ(texts({{"prompt", {3}}}).at(0), alone);
  EXPECT_EQ(texts({{"prompt", {{3}, {3, ingot::test::scripted_id('o')}}}}),
            (std::vector<std::string>{alone, "ne tw"}));
  EXPECT_EQ(texts({{"prompt", "<turn>o"}, {"echo", true}}).at(0), "one tw");
  EXPECT_EQ(texts({{"prompt", ""}}).size(), 1U);
}

TEST(Completions, LogprobsAndStreamsHaveTheOlderShape) {
  const RunningServer server;
  const Json body = {{"prompt", "<turn>"}, {"temperature", 0}, {"max_tokens", 3}, {"logprobs", 1}};
  const Json logprobs = parsed(post(server, "/v1/completions", body))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (Json{"o", "n", "e"}));
  EXPECT_EQ(logprobs["text_offset"], (Json{0, 1, 2}));
  EXPECT_EQ(logprobs["top_logprobs"][1].size(), 1U);
  Json streaming = body;
  streaming["stream"] = true;
  std::string stream;
  server.client().post("/v1/completions", streaming.dump(), {}, [&](std::string_view piece) {
    stream += piece;
    return true;
  });
  const std::vector<Json> events = events_of(stream);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[0]["choices"][0]["text"], "o");
  EXPECT_EQ(events[0]["object"], "text_completion");
}

TEST(Completions, GiveWhatASessionWritesForTheSameSeed) {
  RunningServer server;
  infer::Session session({.model = server.model_path()});
  infer::TextOptions options{.max_tokens = 30, .sampling = {.temperature = 3, .top_p = 0.9, .seed = 11}};
  options.ignore_end_tokens = true;
  const std::string expected = session.generate("abc", options).text;
  const Json answer = parsed(post(server, "/v1/completions",
                                  {{"prompt", "abc"},
                                   {"max_tokens", 30},
                                   {"temperature", 3},
                                   {"top_p", 0.9},
                                   {"seed", 11},
                                   {"ignore_eos", true}}));
  EXPECT_EQ(answer["choices"][0]["text"], expected);
}

TEST(Completions, PromptLogprobsAreThoseOfTheTextWhereItWasWritten) {
  const RunningServer server;
  const Json settings = {{"max_tokens", 3}, {"temperature", 0}, {"logprobs", 1}};
  Json written = settings, read = settings;
  written["prompt"] = "<turn>";
  const Json of_text = parsed(post(server, "/v1/completions", written))["choices"][0]["logprobs"];
  read["prompt"] = "<turn>one";
  read["prompt_logprobs"] = 2;
  read["echo"] = true;
  for (int turn = 0; turn < 2; ++turn) {  // the second time it is in the prefix cache
    const Json choice = parsed(post(server, "/v1/completions", read))["choices"][0];
    const Json& of_prompt = choice["prompt_logprobs"];
    ASSERT_EQ(of_prompt.size(), 4U);
    EXPECT_TRUE(of_prompt[0].is_null());
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string id = std::to_string(ingot::test::scripted_id("one"[i]));
      EXPECT_EQ(of_prompt[i + 1].size(), 2U);
      EXPECT_EQ(of_prompt[i + 1][id]["rank"], 1);
      EXPECT_EQ(of_prompt[i + 1][id]["decoded_token"], std::string(1, "one"[i]));
      EXPECT_NEAR(of_prompt[i + 1][id]["logprob"].get<double>(), of_text["token_logprobs"][i].get<double>(),
                  1e-5);
    }
    const Json& all = choice["logprobs"];  // OpenAI's echo: prompt and text
    EXPECT_EQ(all["tokens"], (Json{"<turn>", "o", "n", "e", " ", "t", "w"}));
    EXPECT_TRUE(all["token_logprobs"][0].is_null());
    EXPECT_NEAR(all["token_logprobs"][3].get<double>(), of_text["token_logprobs"][2].get<double>(), 1e-5);
  }
}

TEST(Completions, LowRanksOfPromptTokensAreToldBesideTheMostProbableOnes) {
  const RunningServer server;
  const Json answer = parsed(post(
      server, "/v1/chat/completions",
      {{"messages", {{{"role", "user"}, {"content", "z"}}}}, {"max_tokens", 1}, {"prompt_logprobs", 1}}));
  const std::string id = std::to_string(ingot::test::scripted_id('z'));
  bool found = false;
  for (const Json& entry : answer["prompt_logprobs"]) {
    if (!entry.is_object() || !entry.contains(id)) continue;
    found = true;
    EXPECT_EQ(entry.size(), 2U);
    EXPECT_GT(entry[id]["rank"], 1);
  }
  EXPECT_TRUE(found);
}

TEST(OpenAiRoutes, ThoseOfOtherMethodsSayWhichTheyTake) {
  const RunningServer server;
  const ClientResponse response = server.client().post("/health", "{}");
  EXPECT_EQ(response.status, 405);
  const auto found =
      std::ranges::find(response.headers, "allow", &std::pair<std::string, std::string>::first);
  ASSERT_NE(found, response.headers.end());
  EXPECT_EQ(found->second, "GET");
}

TEST(OpenAiErrors, NameTheFieldAndWhatIsWrong) {
  const RunningServer server;
  struct Case {
    const char *path, *body;
    int status;
    Json param;
  };
  const std::vector<Case> cases = {
      {"/v1/chat/completions", "{", 400, nullptr},
      {"/v1/chat/completions", "[]", 400, nullptr},
      {"/v1/chat/completions", "\xff\xfe", 400, nullptr},
      {"/v1/chat/completions", "{}", 400, "messages"},
      {"/v1/chat/completions", R"({"messages":[]})", 400, "messages"},
      {"/v1/chat/completions", R"({"messages":[{"content":"x"}]})", 400, "messages[0]"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400,
       "messages[0].content"},
      {"/v1/chat/completions", R"({"model":"other","messages":[{"role":"user","content":"x"}]})", 404,
       "model"},
      {"/v1/completions", R"({"prompt":"x","temperature":"hot"})", 400, "temperature"},
      {"/v1/completions", R"({"prompt":"x","temperature":-1})", 400, "temperature"},
      {"/v1/completions", R"({"prompt":"x","top_p":0})", 400, "top_p"},
      {"/v1/completions", R"({"prompt":"x","n":99})", 400, "n"},
      {"/v1/completions", R"({"prompt":"x","n":1.5})", 400, "n"},
      {"/v1/completions", R"({"prompt":"x","max_tokens":0})", 400, "max_tokens"},
      {"/v1/completions", R"({"prompt":"x","stop":[""]})", 400, "stop"},
      {"/v1/completions", R"({"prompt":"x","stop":[1]})", 400, "stop"},
      {"/v1/completions", R"({"prompt":"x","logit_bias":{"a":1}})", 400, "logit_bias"},
      {"/v1/completions", R"({"prompt":"x","response_format":{"type":"yaml"}})", 400, "response_format"},
      {"/v1/completions", R"({"prompt":"x","stream_options":{}})", 400, "stream_options"},
      {"/v1/completions", R"({"prompt":[9999]})", 400, "prompt"},
      {"/v1/completions", R"({"prompt":[-1]})", 400, "prompt"},
      {"/v1/completions", R"({"prompt":[]})", 400, "prompt"},
      {"/v1/completions", R"({"prompt":{"a":1}})", 400, "prompt"},
      {"/v1/completions", R"({"seed":1})", 400, "prompt"},
      {"/v1/completions", R"({"prompt":"x","suffix":"y"})", 400, "suffix"},
      {"/v1/completions", R"({"prompt":"x","prompt_logprobs":99})", 400, "prompt_logprobs"},
      {"/v1/completions", R"({"prompt":"x","prompt_logprobs":1,"stream":true})", 400, "prompt_logprobs"},
      {"/v1/completions", R"({"prompt":"x","logprobs":1,"echo":true,"stream":true})", 400, "echo"},
      {"/tokenize", R"({})", 400, "prompt"},
      {"/detokenize", R"({"tokens":"x"})", 400, "tokens"},
      {"/nothing", "{}", 404, nullptr},
      {"/v1/models", "{}", 405, nullptr},
  };
  HttpClient client = server.client();
  for (const Case& each : cases) {
    const ClientResponse response = client.post(each.path, each.body);
    EXPECT_EQ(response.status, each.status) << each.body << response.body;
    const Json error = parsed(response)["error"];
    EXPECT_EQ(error["param"], each.param) << each.body << error;
    EXPECT_FALSE(error["message"].get<std::string>().empty());
  }
  const std::string too_long(300, 'a');
  const Json error = parsed(post(server, "/v1/completions", {{"prompt", too_long}}))["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
}

TEST(OpenAiRoutes, TokensGoThereAndBack) {
  const RunningServer server;
  const Json tokens = parsed(post(server, "/tokenize", {{"prompt", "hello"}}));
  EXPECT_EQ(tokens["count"], 5);
  EXPECT_EQ(parsed(post(server, "/detokenize", {{"tokens", tokens["tokens"]}}))["prompt"], "hello");
}

TEST(OpenAiRoutes, ModelsAreListedUnderAllTheirNames) {
  const RunningServer server;
  const Json list = parsed(server.client().get("/v1/models"));
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][1]["id"], "gpt-test");
  EXPECT_EQ(parsed(server.client().get("/v1/models/scripted"))["max_model_len"], 256);
  EXPECT_EQ(server.client().get("/v1/models/other").status, 404);
}

TEST(OpenAiRoutes, AreAllInTheOpenApiDocument) {
  const RunningServer server;
  const Json document = parsed(server.client().get("/openapi.json"));
  for (const Route& route : all_routes()) {
    std::string path(route.path), method(route.method == "GET" ? "get" : "post");
    if (path == "/" || path == "/page/") continue;  // for browsers
    if (path.ends_with('/')) path += "{model}";
    EXPECT_TRUE(document["paths"].contains(path) && document["paths"][path].contains(method)) << path;
  }
}

TEST(OpenAiRoutes, TakeNullForEveryFieldThatTheDocumentSaysMayBeNull) {
  const RunningServer server;
  const Json document = parsed(server.client().get("/openapi.json"));
  const Json& schema = document["components"]["schemas"]["ChatRequest"];
  Json request = chat_request();
  for (const auto& [name, property] : schema["properties"].items())
    if (property.dump().find("\"null\"") != std::string::npos) request[name] = nullptr;
  EXPECT_GT(request.size(), 40U);
  EXPECT_EQ(post(server, "/v1/chat/completions", request).status, 200);
}

TEST(OpenAiRoutes, MetricsCountWhatWasDone) {
  const RunningServer server;
  post(server, "/v1/chat/completions", chat_request({{"temperature", 0}}));
  const std::string text = server.client().get("/metrics").body;
  for (const char* line : {"vllm:generation_tokens_total{model_name=\"scripted\"} 7\n",
                           "vllm:request_success_total{model_name=\"scripted\",finished_reason=\"stop\"} 1\n",
                           "vllm:time_to_first_token_seconds_count{model_name=\"scripted\"} 1\n",
                           "vllm:inter_token_latency_seconds_count{model_name=\"scripted\"} 6\n",
                           "vllm:num_requests_running{model_name=\"scripted\"} 0\n"})
    EXPECT_NE(text.find(line), text.npos) << line << text;
}

TEST(OpenAiRoutes, ManyClientsGetTheirOwnAnswers) {
  const RunningServer server({.model = {.session = {.engine = {.max_running = 5}}}});
  std::vector<std::string> expected;
  const auto body = [](int i) {
    return Json{{"prompt", std::string(1, static_cast<char>('a' + i % 26))},
                {"max_tokens", 20 + i},
                {"temperature", 4},
                {"ignore_eos", true},
                {"seed", i}};
  };
  constexpr int kClients = 24;
  for (int i = 0; i < kClients; ++i)
    expected.push_back(parsed(post(server, "/v1/completions", body(i)))["choices"][0]["text"]);
  std::vector<std::string> got(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Json request = body(i);
      request["stream"] = true;
      std::string stream;
      server.client().post("/v1/completions", request.dump(), {}, [&](std::string_view piece) {
        stream += piece;
        return true;
      });
      for (const Json& event : events_of(stream))
        if (event.is_object()) got[static_cast<std::size_t>(i)] += event["choices"][0]["text"];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace ingot::serve
