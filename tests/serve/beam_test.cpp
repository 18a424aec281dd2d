#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/infer/session.h"

namespace ingot::serve {
namespace {

using test::Json, test::parsed, test::RunningServer;

ClientResponse post(const RunningServer& server, const std::string& path, const Json& body) {
  return server.client().post(path, body.dump());
}

Json request_of(Json more) {
  Json body{{"max_tokens", 6}, {"use_beam_search", true}, {"n", 4}, {"ignore_eos", true}};
  body.update(more);
  return body;
}

TEST(BeamSearchApi, ChoicesAreTheTextsThatTheSessionFindsForEachPrompt) {
  const RunningServer server;
  infer::Session session({.model = server.model_path(), .engine = {.prefix_cache = true}});
  const std::vector<std::string> prompts{"on", "tw", "one t"};
  for (const Json& early : {Json(false), Json(true), Json("never")}) {
    const Json answer = parsed(post(server, "/v1/completions",
                                    request_of({{"prompt", prompts},
                                                {"ignore_eos", false},
                                                {"length_penalty", 0.5},
                                                {"logprobs", 0},
                                                {"early_stopping", early}})));
    ASSERT_EQ(answer["choices"].size(), 12U) << answer;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const auto expected = session.search(prompts[p], session.options({.max_tokens = 6}),
                                           {.width = 4,
                                            .length_penalty = 0.5,
                                            .early_stopping = early == "never" ? infer::EarlyStopping::never
                                                              : early == true  ? infer::EarlyStopping::yes
                                                                               : infer::EarlyStopping::no});
      for (std::size_t k = 0; k < 4; ++k) {
        const Json& choice = answer["choices"][4 * p + k];
        EXPECT_EQ(choice["index"], 4 * p + k);
        EXPECT_EQ(choice["text"], expected[k].text);
        EXPECT_EQ(choice["logprobs"]["tokens"].size(), expected[k].generation.tokens.size());
      }
    }
  }
  EXPECT_EQ(server.engine().cache.running, 0);
}

TEST(BeamSearchApi, AChatsFirstChoiceIsTheMostProbableAnswer) {
  const RunningServer server;
  const Json answer = parsed(post(server, "/v1/chat/completions",
                                  request_of({{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                                              {"ignore_eos", false},
                                              {"max_tokens", 20}})));
  ASSERT_EQ(answer["choices"].size(), 4U) << answer;
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "one twz");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][0]["index"], 0);
}

TEST(BeamSearchApi, WhatDoesNotGoWithItIsRefusedByName) {
  const RunningServer server;
  const auto refused = [&](Json more, const std::string& path = "/v1/completions") {
    const ClientResponse response = post(server, path, request_of(std::move(more)));
    EXPECT_EQ(response.status, 400) << response.body;
    return response.body;
  };
  const Json fields{{"stream", true},           {"best_of", 5},
                    {"prompt_logprobs", 1},     {"stop", "x"},
                    {"length_penalty", "long"}, {"early_stopping", "soon"}};
  for (const auto& [name, value] : fields.items())
    EXPECT_NE(refused({{"prompt", "on"}, {name, value}}).find(name), std::string::npos) << name;
  for (const Json& more : {Json{{"repetition_penalty", 1.2}}, Json{{"logit_bias", {{"7", 1}}}},
                           Json{{"structured_outputs", {{"regex", "y+"}}}}, Json{{"bad_words", {"x"}}}}) {
    Json body = more;
    body["prompt"] = "on";
    EXPECT_NE(refused(body).find("beam search"), std::string::npos) << more;
  }
  refused({{"prompt", "on"}, {"use_beam_search", false}, {"length_penalty", 0.5}});
  refused({{"prompt", "on"}, {"use_beam_search", false}, {"early_stopping", true}});
  const Json defaults{
      {"prompt", "on"}, {"use_beam_search", false}, {"length_penalty", 1}, {"early_stopping", false}};
  EXPECT_EQ(post(server, "/v1/completions", request_of(defaults)).status, 200);
  refused({{"messages", {{{"role", "user"}, {"content", "hi"}}}}}, "/v1/messages");
  refused({{"input", "hi"}}, "/v1/responses");
}

TEST(BeamSearchApi, AClientThatGoesEndsItsSearchAndOthersGoOn) {
  const RunningServer server;
  for (int round = 0; round < 5; ++round) {
    HttpClient impatient = server.client();
    const std::string body = request_of({{"prompt", "on"}, {"n", 16}, {"max_tokens", 200}}).dump();
    impatient.send_raw(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * round));
    impatient.close();
  }
  EXPECT_EQ(parsed(post(server, "/v1/completions", request_of({{"prompt", "on"}})))["choices"].size(), 4U);
  for (int i = 0; i < 200 && server.engine().running + server.engine().waiting > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(server.engine().running + server.engine().waiting, 0);
  EXPECT_EQ(server.engine().cache.running, 0);
  const std::string metrics = server.client().get("/metrics").body;
  const std::size_t aborted = metrics.find("finished_reason=\"abort\"} ");
  ASSERT_NE(aborted, std::string::npos) << metrics;
  EXPECT_GT(std::stoi(metrics.substr(metrics.find("} ", aborted) + 2)), 0);
}

TEST(BeamSearchApi, TheEndOfItsTimeIsStatus504) {
  const RunningServer server;
  const ClientResponse late =
      post(server, "/v1/completions",
           request_of({{"prompt", "on"}, {"n", 16}, {"max_tokens", 200}, {"timeout", 0.02}}));
  EXPECT_EQ(late.status, 504) << late.body;
}

}  // namespace
}  // namespace ingot::serve
