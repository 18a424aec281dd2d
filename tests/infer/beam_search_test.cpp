// goldens/beams.json: tools/goldens/beam_goldens.py, what transformers' generate(num_beams=...) finds.
#include "ingot/infer/beam_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/infer/goldens.h"
#include "tests/infer/scripted_model.h"
#include "tests/infer/small_model.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/infer/beam_job.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

using Ids = std::vector<std::int32_t>;

struct Case {
  std::string model;
  Request request;
  BeamOptions beams;
  std::vector<Ids> texts;
  std::vector<double> scores;
};

std::vector<Case> cases() {
  const auto golden =
      nlohmann::json::parse(read_file(test::source_dir() + "/tests/infer/goldens/beams.json"));
  std::vector<Case> cases;
  for (const auto& c : golden["cases"]) {
    const auto& o = c["options"];
    const std::string early = o["early_stopping"];
    cases.push_back({.model = c["model"],
                     .request = {.prompt = c["prompt"],
                                 .max_tokens = o["max_tokens"],
                                 .sampling = {.temperature = 0, .min_tokens = o["min_tokens"]},
                                 .stop_tokens = o["stop_tokens"]},
                     .beams = {.width = o["width"],
                               .length_penalty = o["length_penalty"],
                               .early_stopping = early == "true"    ? EarlyStopping::yes
                                                 : early == "never" ? EarlyStopping::never
                                                                    : EarlyStopping::no},
                     .texts = c["texts"],
                     .scores = c["scores"]});
  }
  return cases;
}

// transformers keeps the token that ends a text.
Ids with_stop_token(const Generation& found) {
  Ids tokens = found.tokens;
  if (found.stop_token >= 0) tokens.push_back(found.stop_token);
  return tokens;
}

void expect_texts(const Case& c, const std::vector<BeamText>& found) {
  ASSERT_EQ(found.size(), c.texts.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(with_stop_token(found[i].generation), c.texts[i]) << "text " << i;
    EXPECT_NEAR(found[i].score, c.scores[i], 1e-4 * std::max(1.0, -c.scores[i])) << "text " << i;
  }
}

TEST(BeamSearch, FindsTheTextsAndScoresOfTransformersWithAndWithoutAPrefixCache) {
  for (const Case& c : cases()) {
    const auto model = test::golden_model(c.model);
    for (const bool cached : {false, true}) {
      SCOPED_TRACE(c.model + (cached ? " with" : " without") + " prefix cache");
      Engine engine(*model, {.kv_cache = DType::f32, .prefix_cache = cached});
      expect_texts(c, beam_search(engine, c.request, c.beams));
      EXPECT_EQ(engine.stats().running, 0);
      EXPECT_EQ(engine.stats().waiting, 0);
      EXPECT_EQ(engine.stats().cache.running, 0);
    }
  }
}

TEST(BeamSearch, SearchesOfOneSchedulerBesideOneAnotherFindWhatTheyFindAlone) {
  std::map<std::string, std::vector<Case>> by_model;
  for (Case& c : cases()) by_model[c.model].push_back(std::move(c));
  for (auto& [name, of_model] : by_model) {
    SCOPED_TRACE(name);
    const auto model = test::golden_model(name);
    const test::TemporaryDirectory folder;
    const text::Tokenizer tokenizer =
        Session({.model = test::write_scripted_model(folder.path(), test::script(3, "one", 4))}).tokenizer();
    // Room for few texts: the others wait.
    Engine engine(*model, {.kv_cache = DType::f32, .max_running = 5, .prefix_cache = true});
    Scheduler scheduler(engine, tokenizer);
    std::vector<std::promise<BeamEnd>> ends(of_model.size());
    for (std::size_t i = 0; i < of_model.size(); ++i)
      BeamJob::start(scheduler, of_model[i].request, of_model[i].beams,
                     [&, i](BeamEnd end) { ends[i].set_value(std::move(end)); });
    for (std::size_t i = 0; i < of_model.size(); ++i) {
      const BeamEnd end = ends[i].get_future().get();
      EXPECT_EQ(end.error, nullptr);
      expect_texts(of_model[i], end.texts);
    }
    EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
    EXPECT_EQ(scheduler.stats().cache.running, 0);
  }
}

TEST(BeamSearch, LogprobsAreThoseOfTheTokensAndAddUpToTheScore) {
  const auto model = test::golden_model("gpt2");
  Engine engine(*model, {.kv_cache = DType::f32, .prefix_cache = true});
  const Request request{.prompt = {3, 1, 4}, .max_tokens = 9, .logprobs = 2};
  for (const BeamText& text : beam_search(engine, request, {.width = 3, .length_penalty = 0})) {
    ASSERT_EQ(text.generation.logprobs.size(), text.generation.tokens.size());
    double sum = 0;
    for (const DrawnLogprob& token : text.generation.logprobs) {
      EXPECT_EQ(token.top.size(), 2U);
      sum += static_cast<double>(token.logprob);
    }
    EXPECT_NEAR(sum, text.score, 1e-9);
  }
}

TEST(BeamSearch, ReadsEachTokenOfATextOnce) {
  InitSource init(7);
  LanguageConfig config = test::small_config("llama");
  config.max_position_embeddings = 4096;
  const LanguageModel model(config, init);
  Engine engine(model, {.kv_cache = DType::f32, .prefix_cache = true});
  Ids prompt(200);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(i * i % 61);
  beam_search(engine, {.prompt = prompt, .max_tokens = 40}, {.width = 4});
  const KvPoolStats stats = engine.stats().cache;
  EXPECT_EQ(stats.queries - stats.hits, std::ssize(prompt) + 39 * 4);
}

TEST(BeamSearch, EndsWhereTheContextIsFull) {
  const auto model = test::golden_model("gpt2");
  Engine engine(*model, {.context = 8});
  for (const BeamText& text : beam_search(engine, {.prompt = {1, 2, 3}, .max_tokens = 50}, {.width = 2})) {
    EXPECT_EQ(text.generation.tokens.size(), 6U);  // the last needs no place
    EXPECT_EQ(text.generation.reason, StopReason::context_full);
  }
}

TEST(BeamSearch, HasNoTextWhereTheDeadlineComesFirst) {
  const auto model = test::golden_model("gpt2");
  Engine engine(*model);
  const auto past = std::chrono::steady_clock::now();
  EXPECT_TRUE(beam_search(engine, {.prompt = {1, 2}, .deadline = past}, {.width = 2}).empty());
  EXPECT_EQ(engine.stats().cache.running, 0);
}

TEST(BeamSearch, RefusesWhatDoesNotGoWithIt) {
  const auto model = test::golden_model("gpt2");
  Engine engine(*model);
  const auto search = [&](const Request& request, const BeamOptions& beams = {.width = 2}) {
    return beam_search(engine, request, beams);
  };
  EXPECT_THROW(search({.prompt = {1}}, {.width = 0}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}}, {.width = 65}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}}, {.length_penalty = INFINITY}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}, .sampling = {.repetition_penalty = 1.1}}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}, .sampling = {.logit_bias = {{1, 2.0F}}}}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}, .prompt_logprobs = 0}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {1}, .max_tokens = 0}), InvalidConfig);
  EXPECT_THROW(search({.prompt = {}}), DimensionMismatch);
}

TEST(BeamJob, ACancelledSearchEndsWithoutTextsAndGivesItsMemoryBack) {
  const test::TemporaryDirectory folder;
  Session session({.model = test::write_scripted_model(folder.path(), test::script(3, "one twz", 4)),
                   .engine = {.prefix_cache = true}});
  for (int round = 0; round < 20; ++round) {
    Scheduler scheduler(session.engine(), session.tokenizer());
    std::promise<BeamEnd> end;
    const auto job = BeamJob::start(scheduler, {.prompt = {2, 5}, .max_tokens = 200}, {.width = 4},
                                    [&](BeamEnd ended) { end.set_value(std::move(ended)); });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    job->cancel();
    const BeamEnd ended = end.get_future().get();
    const bool whole = ended.reason == StopReason::max_tokens;  // it was faster
    EXPECT_TRUE(whole || ended.reason == StopReason::cancelled);
    EXPECT_EQ(ended.texts.size(), whole ? 4U : 0U);
    EXPECT_TRUE(scheduler.wait_until_idle(std::chrono::seconds(5)));
    EXPECT_EQ(scheduler.stats().cache.running, 0);
  }
}

TEST(BeamJob, ASearchThatIsCancelledInItsFirstStepHasNoTexts) {
  const test::TemporaryDirectory folder;
  Session session({.model = test::write_scripted_model(folder.path(), test::script(3, "one twz", 4)),
                   .engine = {.prefix_cache = true}});
  Scheduler scheduler(session.engine(), session.tokenizer());
  std::promise<std::shared_ptr<BeamJob>> started;
  std::promise<BeamEnd> end;
  Request request{.prompt = {2, 5}, .max_tokens = 200};
  request.on_admitted = [job = started.get_future().share()] { job.get()->cancel(); };
  started.set_value(BeamJob::start(scheduler, request, {.width = 4},
                                   [&](BeamEnd ended) { end.set_value(std::move(ended)); }));
  const BeamEnd ended = end.get_future().get();
  EXPECT_EQ(ended.reason, StopReason::cancelled);
  EXPECT_TRUE(ended.texts.empty());
}

// Their tokens are 4 · 16 requests that wait at once, of a queue of 8.
TEST(BeamJob, SearchesThatWereTakenAreNotRefusedByAFullQueueLater) {
  const test::TemporaryDirectory folder;
  Session session({.model = test::write_scripted_model(folder.path(), test::script(3, "one twz", 4)),
                   .engine = {.prefix_cache = true}});
  Scheduler scheduler(session.engine(), session.tokenizer(), {.max_waiting = 8});
  std::vector<std::promise<BeamEnd>> ends(4);
  for (std::size_t i = 0; i < ends.size(); ++i)
    BeamJob::start(scheduler, {.prompt = {2, static_cast<std::int32_t>(4 + i)}, .max_tokens = 12},
                   {.width = 16}, [&ends, i](BeamEnd ended) { ends[i].set_value(std::move(ended)); });
  for (std::promise<BeamEnd>& end : ends) {
    const BeamEnd ended = end.get_future().get();
    EXPECT_EQ(ended.error, nullptr);
    EXPECT_EQ(ended.texts.size(), 16U);
  }
}

TEST(BeamJob, ADeadlineEndsASearch) {
  const test::TemporaryDirectory folder;
  Session session({.model = test::write_scripted_model(folder.path(), test::script(3, "one twz", 4))});
  Scheduler scheduler(session.engine(), session.tokenizer());
  std::promise<BeamEnd> end;
  BeamJob::start(scheduler,
                 {.prompt = {2, 5}, .max_tokens = 200, .deadline = std::chrono::steady_clock::now()},
                 {.width = 4}, [&](BeamEnd ended) { end.set_value(std::move(ended)); });
  EXPECT_EQ(end.get_future().get().reason, StopReason::timeout);
}

}  // namespace
}  // namespace ingot::infer
