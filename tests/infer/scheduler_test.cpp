#include "ingot/infer/scheduler.h"

#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/infer/constraint.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

constexpr std::int32_t kTurnToken = 3, kEndToken = 4;

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  JobEnd end;
};

// A job whose answer comes when it ends.
std::pair<Job, std::future<Answer>> job_of(Request request) {
  const auto answer = std::make_shared<Answer>();
  const auto promise = std::make_shared<std::promise<Answer>>();
  Job job{.request = std::move(request)};
  job.on_text = [answer](const TextPiece& piece) {
    answer->text += piece.text;
    answer->tokens.insert(answer->tokens.end(), piece.tokens.begin(), piece.tokens.end());
  };
  job.on_end = [answer, promise](JobEnd end) {
    answer->end = std::move(end);
    promise->set_value(*answer);
  };
  return {std::move(job), promise->get_future()};
}

class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest()
      : session_({.model = test::write_scripted_model(folder_.path(),
                                                      test::script(kTurnToken, "one twz", kEndToken)),
                  .engine = {.max_running = 4, .prefix_cache = true}}) {}

  // Random text of a prompt that no two have in common.
  Request request(int i, std::int64_t tokens = 40) const {
    std::vector<std::int32_t> prompt{2};
    for (int k = 0; k < 3 + i % 7; ++k) prompt.push_back(5 + (i * 5 + k) % 29);
    return {.prompt = prompt,
            .max_tokens = tokens,
            .sampling = {.temperature = i % 2 == 0 ? 0.0 : 3.0, .seed = static_cast<std::uint64_t>(i)}};
  }
  Request endless() const { return {.prompt = {2, 5}, .max_tokens = 200, .sampling = {.temperature = 0}}; }

  const test::TemporaryDirectory folder_;
  Session session_;
};

TEST_F(SchedulerTest, RequestsFromManyThreadsGetTheTokensThatTheyGetAlone) {
  constexpr int kThreads = 4, kEach = 6;
  std::vector<std::vector<std::int32_t>> expected;
  for (int i = 0; i < kThreads * kEach; ++i)
    expected.push_back(generate(session_.model(), request(i)).tokens);
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t * kEach; i < (t + 1) * kEach; ++i) {
        auto [job, answer] = job_of(request(i));
        scheduler.submit(std::move(job));
        if (answer.get().tokens != expected[static_cast<std::size_t>(i)]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
  EXPECT_EQ(scheduler.stats().running, 0);
}

TEST_F(SchedulerTest, TextEndsBeforeAStopStringAndSaysWhy) {
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  const Request request{
      .prompt = {kTurnToken}, .max_tokens = 20, .sampling = {.temperature = 0}, .stop_tokens = {kEndToken}};
  auto [stopped, first] = job_of(request);
  stopped.stop = {" tw"};
  auto [whole, second] = job_of(request);
  scheduler.submit(std::move(stopped));
  scheduler.submit(std::move(whole));
  const Answer short_one = first.get(), long_one = second.get();
  EXPECT_EQ(short_one.text, "one");
  EXPECT_EQ(short_one.end.reason, StopReason::stop_string);
  EXPECT_EQ(long_one.text, "one twz");
  EXPECT_EQ(long_one.end.reason, StopReason::stop_token);
  auto [bad, never] = job_of(request);
  bad.stop = {""};
  EXPECT_THROW(scheduler.submit(std::move(bad)), InvalidConfig);
}

TEST_F(SchedulerTest, ACancelledRequestEndsAtTheNextStepAndFreesItsMemory) {
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  std::promise<void> begun;
  auto [job, answer] = job_of(endless());
  const auto on_text = job.on_text;
  job.on_text = [&begun, on_text, first = true](TextPiece piece) mutable {
    on_text(std::move(piece));
    if (std::exchange(first, false)) begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const Scheduler::Id id = scheduler.submit(std::move(job));
  begun.get_future().wait();
  scheduler.cancel(id);
  const Answer ended = answer.get();
  EXPECT_EQ(ended.end.reason, StopReason::cancelled);
  EXPECT_LT(ended.tokens.size(), 200U);
  EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
  EXPECT_EQ(scheduler.stats().cache.running, 0);
  scheduler.cancel(id);  // it has ended
  scheduler.cancel(77);  // never was
}

TEST_F(SchedulerTest, MoreThanMayWaitAreRefusedAndTheOthersAnswered) {
  Scheduler scheduler(session_.engine(), session_.tokenizer(), {.max_waiting = 3});
  std::vector<std::future<Answer>> answers;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    auto [job, answer] = job_of(request(i));
    try {
      scheduler.submit(std::move(job));
      answers.push_back(std::move(answer));
    } catch (const QueueFull&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  for (auto& answer : answers) EXPECT_EQ(answer.get().tokens.size(), 40U);
}

TEST_F(SchedulerTest, WhatCannotBeIsRefusedToItsCaller) {
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  EXPECT_THROW(scheduler.submit({.request = {.prompt = {}}}), DimensionMismatch);
  EXPECT_THROW(scheduler.submit({.request = {.prompt = {99}}}), DimensionMismatch);
  EXPECT_THROW(scheduler.submit({.request = {.prompt = {5}, .sampling = {.top_p = 2}}}), InvalidConfig);
}

TEST_F(SchedulerTest, AFailureIsOfItsRequestAlone) {
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  Request broken = request(0);
  for (std::int32_t id = 0; id < 64; ++id)
    broken.sampling.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  auto [good_job, good] = job_of(request(1));
  auto [bad_job, bad] = job_of(broken);
  scheduler.submit(std::move(good_job));
  scheduler.submit(std::move(bad_job));
  EXPECT_THROW(std::rethrow_exception(bad.get().end.error), NonFinite);
  EXPECT_EQ(good.get().tokens.size(), 40U);
}

TEST_F(SchedulerTest, ARequestThatCannotBeginFailsAlone) {
  // Passes the compiler, and may begin in more ways than are followed.
  std::string source = "root ::= ", rules;
  for (int i = 0; i < 4000; ++i) {
    source += fmt::format("{}r{}", i > 0 ? "|" : "", i);
    rules +=
        fmt::format(R"(r{0} ::= "a" r{0} | "b" r{0} | "c" r{0} | "d" r{0} | "e" r{0} | "f"{1})", i, "\n");
  }
  GrammarCache grammars(session_.tokenizer());
  Request many = request(0);
  many.grammar = grammars.get({.kind = Constraint::Kind::gbnf, .source = source + "\n" + rules});
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  auto [good_job, good] = job_of(request(1));
  auto [bad_job, bad] = job_of(many);
  scheduler.submit(std::move(bad_job));
  scheduler.submit(std::move(good_job));
  const Answer failed = bad.get();
  EXPECT_EQ(failed.end.reason, StopReason::failed);
  EXPECT_THROW(std::rethrow_exception(failed.end.error), InvalidConfig);
  EXPECT_EQ(good.get().tokens.size(), 40U);
  EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
}

TEST_F(SchedulerTest, WhatARequestsOwnFunctionsThrowIsItsOwn) {
  Scheduler scheduler(session_.engine(), session_.tokenizer());
  auto [text_job, text] = job_of(request(0));
  text_job.on_text = [](const TextPiece&) { throw std::runtime_error("no text"); };
  // A piece that is held back comes with the end.
  auto [rest_job, rest] = job_of(
      {.prompt = {kTurnToken}, .max_tokens = 2, .sampling = {.temperature = 0}, .stop_tokens = {kEndToken}});
  rest_job.stop = {"one twz and more"};
  rest_job.on_text = [](const TextPiece&) { throw std::runtime_error("no rest"); };
  auto [end_job, end] = job_of(request(2));
  end_job.on_end = [](const JobEnd&) { throw std::runtime_error("no end"); };
  auto [good_job, good] = job_of(request(1));
  for (Job* job : {&text_job, &rest_job, &end_job, &good_job}) scheduler.submit(std::move(*job));
  for (auto* failed : {&text, &rest}) {
    const Answer answer = failed->get();
    EXPECT_EQ(answer.end.reason, StopReason::failed);
    EXPECT_THROW(std::rethrow_exception(answer.end.error), std::runtime_error);
  }
  EXPECT_EQ(good.get().tokens.size(), 40U);
  EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
  EXPECT_EQ(scheduler.stats().cache.running_slots, 0);
}

TEST_F(SchedulerTest, WhatIsLeftIsCancelledAtItsEnd) {
  std::future<Answer> answer;
  {
    Scheduler scheduler(session_.engine(), session_.tokenizer());
    auto [job, future] = job_of(endless());
    answer = std::move(future);
    scheduler.submit(std::move(job));
  }
  EXPECT_EQ(answer.get().end.reason, StopReason::cancelled);
}

}  // namespace
}  // namespace ingot::infer
