#include "ingot/serve/load_test.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/serve/http_server.h"

namespace ingot::serve {
namespace {

TEST(LoadTest, AsksAsManyAsItSaysInBothLoops) {
  const test::RunningServer server;
  for (const double rate : {0.0, 500.0}) {
    const LoadTestResult result = run_load_test({.url = server.address(),
                                                 .clients = 4,
                                                 .rate = rate,
                                                 .requests = 9,
                                                 .prompt_words = 5,
                                                 .max_tokens = 8,
                                                 .chat = rate > 0});
    ASSERT_EQ(result.requests.size(), 9U);
    for (const RequestTiming& request : result.requests) {
      EXPECT_EQ(request.error, "");
      EXPECT_EQ(request.tokens, 8);
      EXPECT_GT(request.first_token, 0);
      EXPECT_GE(request.whole, request.first_token);
      EXPECT_LE(request.whole, result.seconds);
    }
  }
}

TEST(LoadTest, TellsWhatFailed) {
  const test::RunningServer server;
  const LoadTestResult result =
      run_load_test({.url = server.address(), .model = "other", .clients = 1, .requests = 1});
  EXPECT_NE(result.requests[0].error.find("404"), std::string::npos);
  EXPECT_THROW(run_load_test({.url = server.address(), .clients = 0}), InvalidConfig);
}

TEST(LoadTest, MixedLengthsDifferAndHaveTheMeanThatWasAskedFor) {
  const test::RunningServer server;
  const LoadTestResult result = run_load_test({.url = server.address(),
                                               .clients = 8,
                                               .requests = 200,
                                               .prompt_words = 1,
                                               .max_tokens = 8,
                                               .mixed_lengths = true,
                                               .chat = false});
  std::int64_t tokens = 0, least = 1000, most = 0;
  for (const RequestTiming& request : result.requests) {
    EXPECT_EQ(request.error, "");
    tokens += request.tokens;
    least = std::min(least, request.tokens);
    most = std::max(most, request.tokens);
  }
  EXPECT_NEAR(static_cast<double>(tokens) / 200, 8, 2);
  EXPECT_LE(least, 2);
  EXPECT_GE(most, 20);
  EXPECT_LE(most, 64);
}

// Answers every request with these deltas of a chat as a stream, without `usage`.
class StreamingServer {
 public:
  explicit StreamingServer(std::vector<std::string> deltas)
      : server_({}, [deltas = std::move(deltas)](const std::shared_ptr<Exchange>& exchange) {
          exchange->begin({.content_type = "text/event-stream"});
          for (const std::string& delta : deltas)
            exchange->write("data: {\"choices\":[{\"index\":0,\"delta\":" + delta + "}]}\n\n");
          exchange->write("data: [DONE]\n\n");
          exchange->end();
        }) {
    server_.start();
  }

  RequestTiming answer() const {
    return run_load_test(
               {.url = "http://127.0.0.1:" + std::to_string(server_.port()), .clients = 1, .requests = 1})
        .requests.front();
  }

 private:
  HttpServer server_;
};

TEST(LoadTest, ThoughtsAndCallsOfToolsCountAsText) {
  for (const char* delta : {R"({"content":"a"})", R"({"reasoning_content":"a"})", R"({"reasoning":"a"})",
                            R"({"tool_calls":[{"index":0,"function":{"arguments":"{"}}]})"}) {
    const RequestTiming request = StreamingServer({R"({"role":"assistant"})", delta, delta}).answer();
    EXPECT_EQ(request.error, "");
    EXPECT_GT(request.first_token, 0) << delta;
    EXPECT_EQ(request.gaps.size(), 1U) << delta;
  }
}

TEST(LoadTest, AnAnswerWithoutTextHasNoFirstToken) {
  const RequestTiming request =
      StreamingServer({R"({"role":"assistant"})", R"({"content":"","tool_calls":[]})", "null"}).answer();
  EXPECT_EQ(request.error, "");
  EXPECT_EQ(request.first_token, 0);
  EXPECT_FALSE((ServiceLevel{.first_token = 60}.met_by(request)));
}

TEST(LoadTest, MixedLengthsAddNothingToPromptsThatAreSharedWhole) {
  const test::RunningServer server;
  LoadTestOptions options{.url = server.address(),
                          .clients = 2,
                          .requests = 4,
                          .prompt_words = 5,
                          .shared_words = 5,
                          .max_tokens = 2,
                          .chat = false};
  const std::int64_t expected = run_load_test(options).requests.front().prompt_tokens;
  EXPECT_GT(expected, 0);
  options.mixed_lengths = true;
  for (const RequestTiming& request : run_load_test(options).requests)
    EXPECT_EQ(request.prompt_tokens, expected) << request.error;
}

TEST(ServiceLevel, CountsPiecesOfTextWhereTheServerDoesNotSayTheTokens) {
  const RequestTiming request{.first_token = 1, .whole = 3, .gaps = {0.5, 0.5, 0.5, 0.5}};
  EXPECT_TRUE((ServiceLevel{.per_token = 0.5}.met_by(request)));
  EXPECT_FALSE((ServiceLevel{.per_token = 0.49}.met_by(request)));
}

TEST(ServiceLevel, IsNotMetByAnAnswerWithoutText) {
  EXPECT_FALSE((ServiceLevel{.first_token = 1}.met_by({.whole = 0.5, .tokens = 5})));
  EXPECT_FALSE((ServiceLevel{.whole = 1}.met_by({.whole = 0.5, .tokens = 5})));
}

TEST(ServiceLevel, CountsWhatCameInTime) {
  const RequestTiming request{.first_token = 1, .whole = 3, .tokens = 5};
  EXPECT_FALSE(ServiceLevel{}.is_set());
  EXPECT_TRUE((ServiceLevel{.first_token = 1, .per_token = 0.5, .whole = 3}.met_by(request)));
  EXPECT_FALSE((ServiceLevel{.first_token = 0.9}.met_by(request)));
  EXPECT_FALSE((ServiceLevel{.per_token = 0.49}.met_by(request)));
  EXPECT_FALSE((ServiceLevel{.whole = 2.9}.met_by(request)));
  EXPECT_FALSE((ServiceLevel{.whole = 9}.met_by({.error = "status 503"})));
}

TEST(Percentile, IsTheValueThatAShareDoesNotExceed) {
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.99), 4);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

}  // namespace
}  // namespace ingot::serve
