#include "ingot/infer/engine.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/infer/goldens.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/infer/ngram.h"
#include "ingot/models/language/model_directory.h"

namespace ingot::infer {
namespace {

using test::golden_model;

// The most probable next token by running everything again, without a cache.
std::int32_t next_token(const LanguageModel& model, const std::vector<std::int32_t>& ids) {
  const NoGrad no_grad;
  const Tensor tokens = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  const std::vector<float> all = model.logits(model.hidden({.tokens = tokens})).to_vector<float>();
  const auto last = all.end() - model.config.vocab_size;
  return static_cast<std::int32_t>(std::max_element(last, all.end()) - last);
}

TEST(Generate, GreedyTextEqualsRunningTheWholeSequenceEachTime) {
  for (const char* name :
       {"llama_gqa_llama3", "mistral_window", "qwen3", "gpt2", "lfm2", "lfm2_moe", "granitehybrid_moe",
        "qwen3_5", "qwen3_next_moe", "falcon_h1", "nemotron_h", "nemotron_h_moe", "gemma4", "gemma4_moe"}) {
    const auto model = golden_model(name);
    std::vector<std::int32_t> ids{5, 17, 42};
    const Generation result =
        generate(*model, {.prompt = ids, .max_tokens = 12, .sampling = {.temperature = 0}});
    for (const std::int32_t token : result.tokens) {
      EXPECT_EQ(token, next_token(*model, ids)) << name;
      ids.push_back(token);
    }
    EXPECT_EQ(result.tokens.size(), 12U);
    EXPECT_EQ(result.reason, StopReason::max_tokens);
  }
}

// phi3_longrope was trained on 16 tokens: the prompt lies before them, or the text passes them while it is
// read.
TEST(Generate, LongRopeIsThatOfTheWholeTextOnBothSidesOfItsContext) {
  const auto model = golden_model("phi3_longrope");
  ASSERT_EQ(model->config.rope_scaling.original_max_position_embeddings, 16);
  for (const std::size_t length : {9U, 15U, 16U, 17U, 21U}) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(3 + 7 * i % 50));
    std::vector<std::int32_t> expected, text = ids;
    for (int i = 0; i < 10; ++i) {
      expected.push_back(next_token(*model, text));
      text.push_back(expected.back());
    }
    for (const std::int64_t speculate : {0, 4}) {
      for (const std::int64_t chunk : {5, 512}) {
        const Generation result = generate(
            *model, {.prompt = ids, .max_tokens = 10, .sampling = {.temperature = 0}, .speculate = speculate},
            {.chunk = chunk});
        EXPECT_EQ(result.tokens, expected) << length << " tokens, chunk " << chunk;
      }
    }
  }
}

TEST(Generate, EndsAtAStopTokenAtTheContextsEndAndWhenTold) {
  const auto model = golden_model("gpt2");  // 32 positions
  const std::vector<std::int32_t> prompt{5, 17, 42};
  const Generation free =
      generate(*model, {.prompt = prompt, .max_tokens = 100, .sampling = {.temperature = 0}});
  EXPECT_EQ(free.reason, StopReason::context_full);
  EXPECT_EQ(free.tokens.size(), 30U);  // the last one needs no slot in the cache
  const std::int32_t stop = free.tokens[4];
  const auto first = std::find(free.tokens.begin(), free.tokens.end(), stop) - free.tokens.begin();
  const Generation stopped = generate(
      *model, {.prompt = prompt, .max_tokens = 100, .sampling = {.temperature = 0}, .stop_tokens = {stop}});
  EXPECT_EQ(stopped.reason, StopReason::stop_token);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(stopped.tokens.size()), first);
  int seen = 0;
  const Generation cancelled = generate(
      *model, {.prompt = prompt, .max_tokens = 100, .on_token = [&](std::int32_t) { return ++seen < 3; }});
  EXPECT_EQ(cancelled.reason, StopReason::cancelled);
  EXPECT_EQ(cancelled.tokens.size(), 3U);
}

TEST(Generate, RefusesPromptsThatCannotBe) {
  const auto model = golden_model("gpt2");
  const std::vector<std::int32_t> empty, outside{5, 61}, negative{-1}, too_long(33, 1);
  EXPECT_THROW(generate(*model, {.prompt = empty}), DimensionMismatch);
  EXPECT_THROW(generate(*model, {.prompt = outside}), DimensionMismatch);
  EXPECT_THROW(generate(*model, {.prompt = negative}), DimensionMismatch);
  EXPECT_THROW(generate(*model, {.prompt = too_long}), DimensionMismatch);
  EXPECT_THROW(generate(*model, {.prompt = {5}, .max_tokens = 0}), InvalidConfig);
  EXPECT_THROW(generate(*model, {.prompt = {5}, .speculate = 8}), InvalidConfig);
  EXPECT_THROW(generate(*model, {.prompt = {5}}, {.context = 33}), InvalidConfig);  // the model's is 32
  EXPECT_THROW(generate(*model, {.prompt = {5}}, {.chunk = 0}), InvalidConfig);
  EXPECT_THROW(generate(*model, {.prompt = {5}}, {.kv_cache = DType::i32}), InvalidConfig);
  EXPECT_THROW(generate(*model, {.prompt = {5, 6, 7}}, {.context = 2}), DimensionMismatch);
}

// A text that repeats itself, so that there is something to draft.
std::vector<std::int32_t> repetitive(std::int64_t length) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(3 + i % 5));
  return ids;
}

const char* const kFamilies[] = {"llama_gqa_llama3", "mistral_window", "qwen3", "gpt2", "lfm2", "gemma4"};

TEST(Engine, TextIsTheSameForEveryChunkAndNumberOfThreads) {
  const int threads = num_threads();
  for (const char* name : kFamilies) {
    const auto model = golden_model(name);
    const Request request{.prompt = repetitive(19), .max_tokens = 12, .sampling = {.temperature = 0}};
    const std::vector<std::int32_t> expected = generate(*model, request).tokens;
    for (const std::int64_t chunk : {1, 4, 18, 19}) {
      for (const int count : {1, 2, 3}) {
        set_num_threads(count);
        EXPECT_EQ(generate(*model, request, {.chunk = chunk}).tokens, expected) << name << " " << chunk;
      }
      set_num_threads(threads);
    }
  }
}

TEST(Engine, BatchedSequencesAreThoseDecodedAlone) {
  for (const char* name : kFamilies) {
    const auto model = golden_model(name);
    Engine engine(*model, {.chunk = 6});
    std::vector<Request> requests;
    for (std::int64_t i = 0; i < 5; ++i) {
      requests.push_back(
          {.prompt = repetitive(3 + 4 * i),
           .max_tokens = 6 + i,
           .sampling = {.temperature = i % 2 == 0 ? 0.0 : 1.0, .seed = static_cast<std::uint64_t>(i)},
           .speculate = i});
    }
    std::vector<std::shared_ptr<Sequence>> together;
    for (const Request& request : requests) {
      together.push_back(engine.start(request));
      engine.step();  // they arrive one after another
    }
    engine.run();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(together[i]->result().tokens, generate(*model, requests[i]).tokens) << name << " " << i;
    }
  }
}

TEST(Engine, SpeculativeDecodingChangesNoTokenGreedyOrDrawn) {
  std::int64_t accepted = 0;
  for (const char* name : kFamilies) {
    for (const DType cache : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
      const auto model = golden_model(name);
      for (const double temperature : {0.0, 0.3, 1.0}) {
        Request request{.prompt = repetitive(12),
                        .max_tokens = 18,
                        .sampling = {.temperature = temperature, .repetition_penalty = 1.1, .seed = 5}};
        const std::vector<std::int32_t> expected = generate(*model, request, {.kv_cache = cache}).tokens;
        for (const std::int64_t speculate : {1, 3, 7}) {
          request.speculate = speculate;
          const Generation found = generate(*model, request, {.kv_cache = cache});
          EXPECT_EQ(found.tokens, expected) << name << " " << temperature << " " << speculate;
          EXPECT_LE(found.accepted, found.drafted);
          accepted += found.accepted;
        }
      }
    }
  }
  EXPECT_GT(accepted, 0);  // else this test says nothing
}

TEST(Engine, SmallerCachesStayNearTheText) {
  const auto model = golden_model("llama_gqa_llama3");
  const Request request{.prompt = repetitive(8), .max_tokens = 8, .sampling = {.temperature = 0}};
  const std::vector<std::int32_t> expected = generate(*model, request).tokens;
  EXPECT_EQ(generate(*model, request, {.kv_cache = DType::f16}).tokens, expected);
  EXPECT_EQ(generate(*model, request, {.kv_cache = DType::i8}).tokens.size(), expected.size());
}

TEST(Engine, APromptThatBeginsAsAnEarlierOneGoesOnAsAFreshOneWould) {
  const auto model = golden_model("qwen3");
  Engine engine(*model, {.prefix_cache = true});
  const auto chat = engine.start({.prompt = repetitive(6), .max_tokens = 4, .sampling = {.temperature = 0}});
  engine.run();
  std::vector<std::int32_t> next(chat->tokens().begin(), chat->tokens().end());
  next.insert(next.end(), {9, 10, 11});
  for (const std::vector<std::int32_t>& prompt : {next, next, repetitive(9), std::vector<std::int32_t>{40}}) {
    const Request request{.prompt = prompt, .max_tokens = 5, .sampling = {.temperature = 0}};
    const auto answer = engine.start(request);
    engine.run();
    EXPECT_EQ(answer->result().tokens, generate(*model, request).tokens);
    EXPECT_EQ(answer->result().cached_tokens > 0, prompt.size() > 1);
  }
}

TEST(Engine, ACopyIsMadeOfABeginningThatOthersMayWantAndOfOneThatIsBeingWritten) {
  const auto model = golden_model("qwen3");
  Engine engine(*model, {.prefix_cache = true});
  const Request whole{.prompt = repetitive(20), .max_tokens = 4, .sampling = {.temperature = 0}};
  Request other = whole;
  other.prompt.resize(8);
  other.prompt.push_back(40);
  engine.start(whole);
  engine.run();
  for (const Request& request : {other, whole}) {  // the longer one is still there behind the shorter one
    const auto running = engine.start(request);
    engine.step();
    const auto beside = engine.start(request);  // copies from what runs
    engine.run();
    EXPECT_EQ(running->result().tokens, generate(*model, request).tokens);
    EXPECT_EQ(beside->result().tokens, running->result().tokens);
    EXPECT_EQ(running->result().cached_tokens, request.prompt.size() == 9 ? 8 : 19);
    EXPECT_EQ(beside->result().cached_tokens, running->result().cached_tokens);
  }
}

TEST(Engine, OfRequestsWithOnePromptOneReadsItAndTheOthersWait) {
  const auto model = golden_model("llama_gqa_llama3");
  Engine engine(*model, {.chunk = 20, .prefix_cache = true});
  const Request request{.prompt = repetitive(60), .max_tokens = 3, .sampling = {.temperature = 0}};
  std::vector<std::shared_ptr<Sequence>> all;
  for (int i = 0; i < 3; ++i) all.push_back(engine.start(request));
  engine.run();
  const std::vector<std::int32_t> expected = generate(*model, request).tokens;
  for (const auto& each : all) EXPECT_EQ(each->result().tokens, expected);
  EXPECT_EQ(all[0]->result().cached_tokens, 0);
  EXPECT_EQ(all[1]->result().cached_tokens, 59);
  EXPECT_EQ(all[2]->result().cached_tokens, 59);
}

// Bytes of the keys and values of so many tokens.
std::size_t kv_bytes(const LanguageModel& model, std::int64_t tokens) {
  return KvCache(model.config, tokens, DType::f32).nbytes();
}

TEST(Engine, RequestsThatHaveNoRoomWaitOrGiveWayAndNoTokenChanges) {
  const auto model = golden_model("llama_gqa_llama3");
  for (const bool prefix_cache : {false, true}) {
    Engine engine(*model, {.kv_cache = DType::f32,
                           .chunk = 32,
                           .kv_memory = kv_bytes(*model, 260),
                           .prefix_cache = prefix_cache});
    std::vector<Request> requests;
    for (std::int64_t i = 0; i < 6; ++i) {
      requests.push_back({.prompt = repetitive(20 + i),
                          .max_tokens = 30 + 9 * i,
                          .sampling = {.temperature = 1.0, .seed = static_cast<std::uint64_t>(i)}});
    }
    std::vector<std::shared_ptr<Sequence>> all;
    for (const Request& request : requests) all.push_back(engine.start(request));
    while (engine.step()) {
      const KvPoolStats cache = engine.stats().cache;
      ASSERT_LE(cache.running + cache.idle, cache.budget);
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i]->result().tokens, generate(*model, requests[i], {.kv_cache = DType::f32}).tokens) << i;
    EXPECT_EQ(engine.stats().cache.running_slots, 0);
  }
}

TEST(Engine, TheLatestRequestGivesItsRoomUpWhereAnEarlierOneNeedsIt) {
  const auto model = golden_model("qwen3");
  model->config.max_position_embeddings = 600;
  Engine engine(*model, {.kv_cache = DType::f32, .kv_memory = kv_bytes(*model, 700)});
  const auto request = [](std::uint64_t seed) {
    return Request{
        .prompt = repetitive(10), .max_tokens = 480, .sampling = {.temperature = 1.0, .seed = seed}};
  };
  const auto first = engine.start(request(1)), second = engine.start(request(2));
  engine.run();
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_EQ(first->result().tokens, generate(*model, request(1), {.kv_cache = DType::f32}).tokens);
  EXPECT_EQ(second->result().tokens, generate(*model, request(2), {.kv_cache = DType::f32}).tokens);
}

TEST(Engine, OnlySoManyRunAtOnceAndACancelledOneLeavesItsMemory) {
  const auto model = golden_model("gpt2");
  Engine engine(*model, {.max_running = 2});
  std::vector<std::shared_ptr<Sequence>> all;
  for (int i = 0; i < 4; ++i) all.push_back(engine.start({.prompt = {5, 6}, .max_tokens = 8}));
  engine.step();
  EXPECT_EQ(engine.stats().running, 2);
  EXPECT_EQ(engine.stats().waiting, 2);
  engine.cancel(*all[0]);
  engine.cancel(*all[3]);  // it never ran
  EXPECT_EQ(engine.stats().cache.running_slots, 1);
  engine.run();
  EXPECT_EQ(all[0]->result().reason, StopReason::cancelled);
  EXPECT_EQ(all[3]->result().reason, StopReason::cancelled);
  EXPECT_EQ(all[2]->result().tokens.size(), 8U);
  EXPECT_EQ(engine.stats().cache.running, 0);
}

TEST(Engine, ARequestThatFailsTakesNoOtherWithIt) {
  const auto model = golden_model("qwen3");
  Engine engine(*model);
  const Request good{.prompt = {5, 6, 7}, .max_tokens = 4, .sampling = {.temperature = 0}};
  Request bad = good;  // every token is ruled out
  for (std::int32_t id = 0; id < model->config.vocab_size; ++id)
    bad.sampling.logit_bias.emplace_back(id, -std::numeric_limits<float>::infinity());
  const auto before = engine.start(good), failing = engine.start(bad), behind = engine.start(good);
  EXPECT_THROW(engine.run(), NonFinite);
  EXPECT_EQ(failing->result().reason, StopReason::failed);
  engine.run();
  EXPECT_EQ(before->result().tokens, generate(*model, good).tokens);
  EXPECT_EQ(behind->result().tokens, before->result().tokens);
}

TEST(Engine, LogprobsOfALongPromptComeInAnyMode) {
  const auto model = golden_model("qwen3");
  model->config.max_position_embeddings = 128;
  std::vector<double> found;
  for (const bool batch_invariant : {false, true}) {
    Engine engine(*model, {.chunk = 90, .batch_invariant = batch_invariant});
    const auto sequence = engine.start({.prompt = repetitive(100), .max_tokens = 1, .prompt_logprobs = 0});
    for (int step = 0; step < 10 && engine.step(); ++step) {
    }
    const auto& scored = sequence->result().prompt_logprobs;
    ASSERT_EQ(scored.size(), 99U) << batch_invariant;
    found.push_back(scored.back().drawn.logprob);
  }
  EXPECT_NEAR(found[0], found[1], 1e-4);
}

TEST(Engine, BatchInvariantSequencesGetTheSameBitsWhateverIsBesideThem) {
  const auto model = golden_model("qwen3");
  const EngineOptions options{.chunk = 20, .prefix_cache = true, .batch_invariant = true};
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < 24; ++i) {  // more than are written in one pass
    requests.push_back({.prompt = repetitive(2 + 2 * i),
                        .max_tokens = 4 + i % 5,
                        .sampling = {.temperature = 1.0, .seed = static_cast<std::uint64_t>(i)},
                        .speculate = i % 3,
                        .logprobs = 0});
  }
  Engine engine(*model, options);
  std::vector<std::shared_ptr<Sequence>> together;
  for (const Request& request : requests) {
    together.push_back(engine.start(request));
    engine.step();
  }
  engine.run();
  const auto bits = [](const Generation& made) {
    std::vector<float> logprobs;
    for (const DrawnLogprob& each : made.logprobs) logprobs.push_back(each.logprob);
    return logprobs;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Generation alone = generate(*model, requests[i], options);
    EXPECT_EQ(together[i]->result().tokens, alone.tokens) << i;
    EXPECT_EQ(bits(together[i]->result()), bits(alone)) << i;
  }
  EXPECT_EQ(engine.stats().cache.hits % 20, 0);
  EXPECT_GT(engine.stats().cache.hits, 0);
}

TEST(Engine, LogprobsAreThoseOfTheWholeDistribution) {
  const auto model = golden_model("qwen3");
  const std::int64_t vocab = model->config.vocab_size;
  for (const std::int64_t speculate : {0, 3}) {
    const Generation made = generate(*model, {.prompt = repetitive(9),
                                              .max_tokens = 6,
                                              .sampling = {.temperature = 1.0, .top_k = 3, .seed = 4},
                                              .speculate = speculate,
                                              .logprobs = vocab});
    ASSERT_EQ(made.logprobs.size(), made.tokens.size());
    for (std::size_t i = 0; i < made.tokens.size(); ++i) {
      const DrawnLogprob& drawn = made.logprobs[i];
      double sum = 0;
      float of_token = 1;
      for (const TokenLogprob& each : drawn.top) {
        sum += std::exp(static_cast<double>(each.logprob));
        if (each.id == made.tokens[i]) of_token = each.logprob;
      }
      EXPECT_NEAR(sum, 1, 1e-5);
      EXPECT_EQ(drawn.logprob, of_token);
      EXPECT_TRUE(std::ranges::is_sorted(drawn.top, std::greater<>(), &TokenLogprob::logprob));
    }
  }
}

TEST(Engine, ACacheGrowsWithASequenceLongerThanItsFirstBlock) {
  const auto model = golden_model("llama_gqa_llama3");
  const std::int64_t wanted = std::min<std::int64_t>(600, model->config.max_position_embeddings - 3);
  const Generation made =
      generate(*model, {.prompt = {1, 2, 3}, .max_tokens = wanted, .sampling = {.temperature = 0}});
  EXPECT_EQ(static_cast<std::int64_t>(made.tokens.size()), wanted);
}

TEST(NgramDraft, FollowsTheLatestEarlierPosition) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ngram_draft(Ids{1, 2, 3, 4, 5, 1, 2, 3}, 2), (Ids{4, 5}));
  EXPECT_EQ(ngram_draft(Ids{1, 2, 3, 4, 1, 2, 3, 9, 1, 2, 3}, 3), (Ids{9, 1, 2}));
  EXPECT_EQ(ngram_draft(Ids{7, 2, 3, 4, 1, 2, 3}, 1), (Ids{4}));  // two tokens in common
  EXPECT_EQ(ngram_draft(Ids{5, 5, 5, 5}, 4), (Ids{5}));
  EXPECT_TRUE(ngram_draft(Ids{1, 2, 3, 4}, 4).empty());
  EXPECT_TRUE(ngram_draft(Ids{1, 2, 1, 2}, 0).empty());
  EXPECT_TRUE(ngram_draft(Ids{}, 3).empty());
}

}  // namespace
}  // namespace ingot::infer
