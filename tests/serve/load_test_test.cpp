#include "ingot/serve/load_test.h"

#include "tests/serve/running_server.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

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

TEST(Percentile, IsTheValueThatAShareDoesNotExceed) {
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.99), 4);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

}  // namespace
}  // namespace ingot::serve
