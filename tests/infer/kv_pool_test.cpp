#include "ingot/infer/kv_pool.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/infer/small_model.h"
#include <gtest/gtest.h>

#include "ingot/infer/engine.h"

namespace ingot::infer {
namespace {

LanguageConfig long_config() {
  LanguageConfig config = test::small_config("llama");
  config.max_position_embeddings = 2048;
  return config;
}

std::vector<std::int32_t> prompt(std::int64_t length, std::int32_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back((seed + 7 * i) % 61);
  return ids;
}

TEST(KvPool, RequestsOfMixedLengthsWasteLittleOfTheirMemory) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  Engine engine(model, {.chunk = 4096});
  for (std::int32_t i = 0; i < 16; ++i)
    engine.start(
        {.prompt = prompt(100 + 83 * (i % 9), i), .max_tokens = 900, .sampling = {.temperature = 0}});
  for (int step = 0; step < 4; ++step) engine.step();
  const KvPoolStats cache = engine.stats().cache;
  ASSERT_EQ(cache.running_slots, 16);
  EXPECT_LE(cache.held, cache.running);
  EXPECT_GE(static_cast<double>(cache.held), 0.95 * static_cast<double>(cache.running));
}

TEST(KvPool, SixtyFourMixedRequestsWasteAtMostFourPercentOfTheirMemory) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  Engine engine(model, {.kv_cache = DType::f32, .chunk = 1 << 16});  // blocks of 32 tokens
  for (std::int32_t i = 0; i < 64; ++i)
    engine.start({.prompt = prompt(40 + 61 * (i * 7 % 23), i), .max_tokens = 200});
  std::int64_t held = 0, running = 0;
  for (int step = 0; step < 3; ++step) {
    engine.step();
    const KvPoolStats cache = engine.stats().cache;
    ASSERT_EQ(cache.running_slots, 64);
    held += cache.held;
    running += cache.running;
  }
  EXPECT_LE(held, running);
  EXPECT_LE(static_cast<double>(running - held), 0.04 * static_cast<double>(running));
}

TEST(KvPool, ACacheTakesLessThanAPageOfEachHeadBeyondItsTokens) {
  LanguageConfig config = long_config();
  config.num_attention_heads = config.num_key_value_heads = 3;
  config.hidden_size = 192;
  config.validate();
  KvPool pool(config, {.dtype = DType::f16, .context = 2048});
  const auto slot = pool.acquire(prompt(20, 1), 21, "");
  if (!slot->cache.is_paged()) GTEST_SKIP() << "memory is not taken by pages here";
  for (std::int64_t tokens = 21; tokens < 300; ++tokens) {
    ASSERT_TRUE(pool.grow(*slot, tokens));
    EXPECT_GE(slot->cache.capacity(), tokens);
    EXPECT_LT(slot->cache.capacity() - tokens, 11);  // 10.7 tokens of 384 bytes are a page
  }
}

// Of which most are admitted and wait for their turn.
TEST(KvPool, PromptsTakeMemoryAsTheyAreRead) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  Engine engine(model, {.kv_cache = DType::f32, .chunk = 256});
  for (std::int32_t i = 0; i < 64; ++i)
    engine.start({.prompt = prompt(40 + 61 * (i * 7 % 23), i), .max_tokens = 200});
  std::int64_t held = 0, running = 0;
  for (int step = 0; step < 40; ++step) {
    engine.step();
    const KvPoolStats cache = engine.stats().cache;
    ASSERT_GT(cache.held, 0);
    held += cache.held;
    running += cache.running;
  }
  EXPECT_LE(held, running);
  EXPECT_LE(static_cast<double>(running - held), 0.04 * static_cast<double>(running));
}

// Though a prompt takes its memory as it is read, another is not admitted into what it is going to take.
TEST(KvPool, ThePromptsOfRunningRequestsFitTheBudgetBeforeTheyAreRead) {
  LanguageConfig config = long_config();
  config.validate();
  KvPool pool(config, {.dtype = DType::f32, .budget = 1024, .context = 2048});
  const std::vector<std::int32_t> first = prompt(600, 1), second = prompt(500, 2), third = prompt(300, 3);
  const auto long_one = pool.acquire(first, 640, {});
  ASSERT_NE(long_one, nullptr);
  EXPECT_EQ(pool.stats().running, 0);
  EXPECT_EQ(pool.acquire(second, 540, {}), nullptr);
  const auto other = pool.acquire(third, 340, {});
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(pool.grow(*other, 300));
  EXPECT_FALSE(pool.grow(*other, 500));
  EXPECT_TRUE(pool.grow(*long_one, 600));
  EXPECT_LE(pool.stats().running, 1024);
}

// Of all but the smallest models: a page holds 64 tokens of 64 bytes.
TEST(KvPool, MixedRequestsWasteAtMostFourPercentOfTheirMemoryInEveryDtypeAndHeadSize) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const std::int64_t head_size : {32, 64, 80, 96, 128, 256}) {
      for (const std::int64_t heads : {2, 3, 8}) {
        if (heads * head_size * static_cast<std::int64_t>(byte_size(dtype)) < 96) continue;
        LanguageConfig config = long_config();
        config.num_attention_heads = config.num_key_value_heads = heads;
        config.head_dim = head_size;
        KvPool pool(config, {.dtype = dtype, .context = 2048});
        std::vector<std::shared_ptr<KvSlot>> slots;
        for (std::int32_t i = 0; i < 64; ++i) {
          const std::vector<std::int32_t> ids = prompt(40 + 61 * (i * 7 % 23), i);
          slots.push_back(pool.acquire(ids, std::ssize(ids) + 200, {}));
          ASSERT_TRUE(pool.grow(*slots.back(), std::ssize(ids)));
          slots.back()->cache.advance(std::ssize(ids));
        }
        std::int64_t held = 0, running = 0;
        for (int step = 0; step < 40; ++step) {
          for (const auto& slot : slots) {
            ASSERT_TRUE(pool.grow(*slot, slot->cache.length() + 1));
            slot->cache.advance(1);
          }
          held += pool.stats().held;
          running += pool.stats().running;
        }
        EXPECT_LE(held, running);
        EXPECT_LE(static_cast<double>(running - held), 0.04 * static_cast<double>(running))
            << name(dtype) << ", heads of " << head_size << ", " << heads << " of them";
      }
    }
  }
}

// Four samples of one prompt, as `n` of the API asks for.
std::vector<Request> four_samples(std::int64_t length) {
  std::vector<Request> requests;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    requests.push_back(
        {.prompt = prompt(length, 3), .max_tokens = 40, .sampling = {.temperature = 1, .seed = seed}});
  return requests;
}

TEST(KvPool, SamplesOfOnePromptComputeItOnceAndHoldItsBlocksOnce) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  const std::int64_t length = 1000;
  Engine engine(model, {.prefix_cache = true});
  std::vector<std::shared_ptr<Sequence>> samples;
  for (Request& request : four_samples(length)) samples.push_back(engine.start(std::move(request)));
  for (int step = 0; step < 12; ++step) engine.step();
  const KvPoolStats cache = engine.stats().cache;
  ASSERT_EQ(cache.running_slots, 4);
  EXPECT_EQ(cache.hits, 3 * (length - 1));  // of the last token the logits are wanted
  const std::int64_t block = KvCache(model.config, 1, DType::f32).page_tokens();
  EXPECT_EQ(cache.shared, (length - 1) / block * block);
  EXPECT_LE(cache.running, length + 4 * 2 * block);
  EXPECT_LE(cache.held, cache.running);
  engine.run();
  EXPECT_LE(engine.stats().cache.idle, length + 4 * (40 + block));
  std::size_t i = 0;
  for (Request& request : four_samples(length))
    EXPECT_EQ(samples[i++]->result().tokens, generate(model, std::move(request)).tokens);
}

TEST(KvPool, SamplesRunTogetherWhereMemoryHoldsTheirPromptButOnce) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  const std::size_t token = KvCache(model.config, 1, DType::f32).nbytes();
  const std::int64_t length = 1000;
  // Two prompts would not fit.
  Engine engine(model,
                {.kv_cache = DType::f32, .context = 1200, .kv_memory = 1400 * token, .prefix_cache = true});
  std::vector<std::shared_ptr<Sequence>> samples;
  for (Request& request : four_samples(length)) samples.push_back(engine.start(std::move(request)));
  std::int64_t most = 0;
  do {
    const EngineStats stats = engine.stats();
    most = std::max(most, stats.running);
    EXPECT_LE(stats.cache.running + stats.cache.idle, stats.cache.budget);
  } while (engine.step());
  EXPECT_EQ(most, 4);
  EXPECT_EQ(engine.stats().preemptions, 0);
  std::size_t i = 0;
  for (Request& request : four_samples(length))
    EXPECT_EQ(samples[i++]->result().tokens, generate(model, std::move(request)).tokens);
}

TEST(KvPool, RequestsThatWantTheLogprobsOfTheirPromptShareNoneOfItAndKeepTheBudget) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  const std::size_t token = KvCache(model.config, 1, DType::f32).nbytes();
  Engine engine(model,
                {.kv_cache = DType::f32, .context = 1200, .kv_memory = 1400 * token, .prefix_cache = true});
  for (Request& request : four_samples(1000)) {
    request.prompt_logprobs = 0;
    engine.start(std::move(request));
  }
  do {
    const EngineStats stats = engine.stats();
    EXPECT_LE(stats.running, 1);
    EXPECT_LE(stats.cache.running + stats.cache.idle, stats.cache.budget);
  } while (engine.step());
  EXPECT_EQ(engine.stats().preemptions, 0);
  EXPECT_EQ(engine.stats().cache.hits, 0);
}

TEST(KvPool, ARequestWaitsForAPromptThatIsBeingReadOnlyWhereItMayReuseIt) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  for (const std::int64_t logprobs : {-1, 0}) {
    Engine engine(model, {.chunk = 64, .prefix_cache = true});
    std::vector<std::shared_ptr<Sequence>> sequences;
    for (int i = 0; i < 2; ++i) {
      Request request{.prompt = prompt(300, 3), .max_tokens = 4, .sampling = {.temperature = 0}};
      if (i > 0) request.prompt_logprobs = logprobs;
      sequences.push_back(engine.start(std::move(request)));
    }
    engine.step();
    EXPECT_EQ(engine.stats().running, logprobs < 0 ? 1 : 2);
    engine.run();
    EXPECT_EQ(sequences[0]->result().tokens, sequences[1]->result().tokens);
    EXPECT_EQ(sequences[1]->result().cached_tokens, logprobs < 0 ? 299 : 0);
  }
}

// Two of its four layers see the last 64 tokens alone.
LanguageConfig sliding_config() {
  LanguageConfig config = long_config();
  config.num_hidden_layers = 4;
  config.sliding_window = 64;
  config.layer_types = {LayerKind::sliding, LayerKind::full, LayerKind::sliding, LayerKind::full};
  return config;
}

TEST(KvPool, LayersWithAWindowGiveBackWhatTheyLeaveBehindAndTheTokensStay) {
  InitSource init(3);
  const LanguageModel model(sliding_config(), init);
  const auto request = [](std::int32_t seed) {
    return Request{.prompt = prompt(700, seed), .max_tokens = 500, .sampling = {.temperature = 0}};
  };
  const std::int64_t chunk = 128, block = KvCache(model.config, 1, DType::f32).page_tokens();
  Engine whole(model, {.kv_cache = DType::f32, .chunk = chunk, .prefix_cache = true});
  Engine bounded(model, {.kv_cache = DType::f32, .chunk = chunk});
  const auto expected = whole.start(request(1)), found = bounded.start(request(1));
  while (!found->finished()) {
    whole.step();
    bounded.step();
    const KvPoolStats all = whole.stats().cache, less = bounded.stats().cache;
    if (less.running == 0) continue;
    const std::int64_t tokens = std::ssize(found->tokens());
    EXPECT_GE(less.running, less.held);
    EXPECT_LE(less.running, (tokens + block) / 2 + (64 + KvCache::kTakenBack + chunk + 2 * block) / 2);
    if (tokens > 700) EXPECT_GE(all.running, tokens - 1);
  }
  EXPECT_EQ(found->result().tokens, expected->result().tokens);
}

TEST(KvPool, SequencesWithWindowsRunTogetherWhereWholeOnesWouldNotFit) {
  InitSource init(3);
  const LanguageModel model(sliding_config(), init);
  const std::size_t token = KvCache(model.config, 1, DType::f32).nbytes();
  // Three sequences of 1,000 tokens take the memory of some 600 each.
  Engine engine(model, {.kv_cache = DType::f32,
                        .context = 1100,
                        .chunk = 64,
                        .kv_memory = 2300 * token,
                        .prefix_cache = true});
  std::vector<std::shared_ptr<Sequence>> sequences;
  const auto request = [](std::int32_t i) {
    return Request{.prompt = prompt(800, i), .max_tokens = 200, .sampling = {.temperature = 0}};
  };
  for (std::int32_t i = 0; i < 3; ++i) sequences.push_back(engine.start(request(i)));
  std::int64_t most = 0;
  do {
    const EngineStats stats = engine.stats();
    most = std::max(most, stats.running);
    EXPECT_LE(stats.cache.running + stats.cache.idle, stats.cache.budget);
  } while (engine.step());
  EXPECT_EQ(most, 3);
  EXPECT_EQ(engine.stats().preemptions, 0);
  for (std::int32_t i = 0; i < 3; ++i)
    EXPECT_EQ(sequences[static_cast<std::size_t>(i)]->result().tokens, generate(model, request(i)).tokens);
}

TEST(KvPool, AConversationGoesOnWhereItsWindowWasKept) {
  InitSource init(3);
  const LanguageModel model(sliding_config(), init);
  const std::size_t token = KvCache(model.config, 1, DType::f32).nbytes();
  Engine engine(model, {.kv_cache = DType::f32,
                        .context = 1100,
                        .chunk = 64,
                        .kv_memory = 1200 * token,
                        .prefix_cache = true});
  const Request first{.prompt = prompt(900, 1), .max_tokens = 20, .sampling = {.temperature = 0}};
  const Generation said = engine.generate(first);
  // Another one, for which the first gives back what its windows have left behind.
  engine.generate({.prompt = prompt(600, 2), .max_tokens = 4, .sampling = {.temperature = 0}});
  Request next = first;
  next.prompt.insert(next.prompt.end(), said.tokens.begin(), said.tokens.end());
  next.prompt.push_back(5);
  const Generation answer = engine.generate(next);
  EXPECT_GE(answer.cached_tokens, 900);
  EXPECT_EQ(answer.tokens, generate(model, next).tokens);
  Request shorter = first;  // a beginning that is known no more
  shorter.prompt.resize(500);
  const Generation again = engine.generate(shorter);
  EXPECT_EQ(again.tokens, generate(model, shorter).tokens);
}

TEST(KvPool, ACacheGrowsWhereItIsAndGivesBackWhatItLeaves) {
  InitSource init(3);
  const LanguageModel model(long_config(), init);
  KvCache cache(model.config, 1, DType::f32, kCpu, 512);
  ASSERT_TRUE(cache.is_paged());
  const std::uint64_t memory = cache.memory();
  cache.reserve(300);
  EXPECT_EQ(cache.memory(), memory);
  const Tensor rows = Tensor::empty({200, 2, 32});
  std::iota(rows.data<float>(), rows.data<float>() + rows.numel(), 0.0F);
  for (std::int64_t layer = 0; layer < cache.layers(); ++layer) cache.append(layer, rows, rows);
  cache.advance(200);
  const auto last = [&] { return cache.saved(199, 1).front().to_vector<float>(); };
  const std::vector<float> before = last();
  EXPECT_EQ(before.front(), 199.0F * 64);
  const std::size_t bytes = cache.nbytes();
  cache.shrink(0);
  EXPECT_EQ(cache.capacity(), 200);
  EXPECT_LT(cache.nbytes(), bytes);
  EXPECT_EQ(last(), before);
  cache.reserve(3000);  // beyond the address space
  EXPECT_NE(cache.memory(), memory);
  EXPECT_EQ(last(), before);
}

}  // namespace
}  // namespace ingot::infer
