#include "ingot/serve/timeline.h"

#include <algorithm>

#include "tests/serve/running_server.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot::serve {
namespace {

using test::Json;
using test::parsed;
using test::RunningServer;

TEST(Timeline, HoldsSoManyAndLetsThoseThatHaveEndedGoFirst) {
  Timeline timeline;
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < Timeline::kMost; ++i) ids.push_back(timeline.add({.model = "m"}));
  EXPECT_EQ(timeline.add({}), 0U) << "all of them go on";
  timeline.admit(ids[7]);
  timeline.count(ids[7], 1);
  timeline.end(ids[7], infer::StopReason::max_tokens, {.tokens = {1, 2}, .cached_tokens = 3});
  const std::uint64_t next = timeline.add({.model = "next"});
  EXPECT_GT(next, ids.back());
  const std::vector<TimelineEntry> entries = timeline.entries();
  EXPECT_EQ(entries.size(), Timeline::kMost);
  EXPECT_EQ(std::ranges::count(entries, ids[7], &TimelineEntry::id), 0);
  EXPECT_EQ(entries.back().model, "next");
  timeline.end(ids[7], infer::StopReason::failed, {});  // it is known no more
  timeline.count(0, 1);
}

TEST(Timeline, FollowsAChoiceThroughItsStates) {
  Timeline timeline;
  const std::uint64_t id = timeline.add({.prompt_tokens = 5});
  const auto entry = [&] { return timeline.entries().front(); };
  EXPECT_EQ(entry().state(), "queued");
  timeline.admit(id);
  EXPECT_EQ(entry().state(), "prefill");
  timeline.count(id, 2);
  timeline.count(id, 1);
  EXPECT_EQ(entry().state(), "decode");
  EXPECT_EQ(entry().tokens, 3);
  timeline.end(id, infer::StopReason::stop_string, {.tokens = {1, 2, 3, 4}, .cached_tokens = 2});
  const TimelineEntry ended = entry();
  EXPECT_EQ(ended.state(), "ended");
  EXPECT_EQ(ended.tokens, 4);
  EXPECT_EQ(ended.cached_tokens, 2);
  EXPECT_EQ(ended.end, "stop_string");
  EXPECT_LE(ended.arrived, ended.admitted);
  EXPECT_LE(ended.admitted, ended.first_token);
  EXPECT_LE(ended.first_token, ended.ended);
}

TEST(Timeline, TellsEachKeyOfItsOwnAndNobodyOfWhatWasSaid) {
  const ingot::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  write_file_atomically(path, "one\ntwo\nboss admin\nfew models=gpt-test\n");
  const RunningServer server({.access = {.key_file = path}});
  HttpClient client = server.client();
  for (const char* key : {"one", "two"}) {
    const Json body{{"prompt", "hideme"}, {"max_tokens", 3}, {"n", 2}, {"ignore_eos", true}};
    ASSERT_EQ(client.post("/v1/completions", body.dump(), {{"x-api-key", key}}).status, 200);
  }
  const auto requests = [&](const char* key) {
    const ClientResponse response = client.get("/requests", {{"x-api-key", key}});
    EXPECT_EQ(response.body.find("hideme"), std::string::npos);
    return parsed(response)["requests"];
  };
  const Json mine = requests("one"), all = requests("boss");
  ASSERT_EQ(mine.size(), 4U);
  EXPECT_EQ(mine[0]["client"], "key 7692c3ad");  // sha256 of "one"
  EXPECT_EQ(mine[3]["client"], "another key");
  EXPECT_EQ(all[3]["client"], "key 3fc4ccfe");
  for (const Json& each : all) {
    EXPECT_EQ(each["state"], "ended");
    EXPECT_EQ(each["end"], "max_tokens");
    EXPECT_EQ(each["tokens"], 3);
    EXPECT_EQ(each["prompt_tokens"], 6);
    EXPECT_LE(each["arrived"], each["admitted"]);
    EXPECT_LE(each["admitted"], each["first_token"]);
    EXPECT_LE(each["first_token"], each["ended"]);
  }
  EXPECT_EQ(requests("few").size(), 0U) << "of models that it may not ask for";
  EXPECT_EQ(client.get("/requests").status, 401);
}

}  // namespace
}  // namespace ingot::serve
