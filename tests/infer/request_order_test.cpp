#include <algorithm>
#include <string>
#include <thread>

#include "tests/infer/goldens.h"
#include <gtest/gtest.h>

#include "ingot/infer/engine.h"

namespace ingot::infer {
namespace {

using namespace std::chrono_literals;
using test::golden_model;

/// Requests that an engine runs one by one, and the names of those that have ended, in their order.
class RequestOrder : public ::testing::Test {
 protected:
  void start(const std::string& name, const std::string& client = {}, std::int64_t priority = 0) {
    Request request{.prompt = {5, 6, 7}, .max_tokens = 4, .priority = priority, .client = client};
    all_.emplace_back(name, engine_.start(std::move(request)));
  }
  // Until so many have ended; 0: all.
  std::string run(std::size_t count = 0) {
    while (ended_.size() < (count > 0 ? count : all_.size())) {
      engine_.step();
      for (const auto& [name, sequence] : all_) {
        if (sequence->finished() && std::ranges::find(ended_, name) == ended_.end()) ended_.push_back(name);
      }
    }
    std::string order;
    for (const std::string& name : ended_) order += (order.empty() ? "" : " ") + name;
    return order;
  }

  const std::unique_ptr<LanguageModel> model_ = golden_model("gpt2");
  Engine engine_{*model_, {.max_running = 1}};
  std::vector<std::pair<std::string, std::shared_ptr<Sequence>>> all_;
  std::vector<std::string> ended_;
};

TEST_F(RequestOrder, IsByPriorityThenByArrival) {
  start("a");
  start("late", {}, 5);
  start("b");
  start("urgent", {}, -1);
  EXPECT_EQ(run(), "urgent a b late");
}

TEST_F(RequestOrder, GivesEachClientATurnHoweverManyRequestsOneHas) {
  for (const char* name : {"a1", "a2", "a3"}) start(name, "a");
  start("b1", "b");
  for (const char* name : {"c1", "c2"}) start(name, "c");
  EXPECT_EQ(run(), "a1 b1 c1 a2 c2 a3");
}

TEST_F(RequestOrder, OwesNothingToAClientForTheTimeThatItAskedForNothing) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) start(name, "a");
  run(2);
  for (const char* name : {"b1", "b2"}) start(name, "b");
  EXPECT_EQ(run(), "a1 a2 a3 b1 a4 b2");
}

TEST_F(RequestOrder, APriorityGoesBeforeShares) {
  for (const char* name : {"a1", "a2"}) start(name, "a", -1);
  start("b1", "b");
  EXPECT_EQ(run(), "a1 a2 b1");
}

TEST(RequestPriority, TheLeastUrgentGivesItsMemoryUp) {
  const auto model = golden_model("qwen3");
  model->config.max_position_embeddings = 600;
  const std::size_t token = KvCache(model->config, 1, DType::f32).nbytes();
  for (const bool first_is_urgent : {true, false}) {
    Engine engine(*model, {.kv_cache = DType::f32, .kv_memory = 540 * token});
    const auto request = [&](std::int32_t id, bool urgent) {
      return Request{
          .prompt = std::vector<std::int32_t>(10, id), .max_tokens = 300, .priority = urgent ? 0 : 1};
    };
    const auto first = engine.start(request(1, first_is_urgent)),
               second = engine.start(request(2, !first_is_urgent));
    while (engine.stats().preemptions == 0 && engine.step()) {
    }
    ASSERT_GT(engine.stats().preemptions, 0);
    const Sequence& urgent = first_is_urgent ? *first : *second;
    while (!urgent.finished()) engine.step();
    EXPECT_FALSE((first_is_urgent ? second : first)->finished());
    engine.run();
    EXPECT_EQ(first->result().tokens.size(), 300U);
    EXPECT_EQ(second->result().tokens.size(), 300U);
  }
}

TEST(RequestDeadline, EndsThoseWhoseTimeIsOverWhetherTheyRunOrWait) {
  const auto model = golden_model("gpt2");
  Engine engine(*model, {.max_running = 1});
  const auto now = std::chrono::steady_clock::now();
  const Request plain{.prompt = {5, 6}, .max_tokens = 8};
  Request slow = plain, waiting = plain, in_time = plain;
  waiting.deadline = now;
  in_time.deadline = now + 1h;
  slow.deadline = now + 20ms;
  slow.on_token = [&](std::int32_t) {
    std::this_thread::sleep_until(now + 25ms);
    return true;
  };
  const auto late = engine.start(slow), never = engine.start(waiting), whole = engine.start(in_time);
  engine.run();
  EXPECT_EQ(late->result().reason, StopReason::timeout);
  EXPECT_LE(late->result().tokens.size(), 1U);
  EXPECT_EQ(never->result().reason, StopReason::timeout);
  EXPECT_TRUE(never->result().tokens.empty());
  EXPECT_EQ(whole->result().reason, StopReason::max_tokens);
  EXPECT_EQ(engine.stats().cache.running, 0);
}

}  // namespace
}  // namespace ingot::infer
