#include "ingot/infer/kv_pool.h"

#include <numeric>

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
