#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/ops/cached_attention.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Caches of many texts on a CUDA device, emulated or not: all in one launch, against one after the other.
namespace ingot {
namespace {

using test::kDevice;
using testing::randn;

constexpr std::int64_t kHeads = 2, kHeadSize = 32, kGroup = 3;

LanguageConfig one_layer() {
  LanguageConfig c;
  c.num_hidden_layers = 1;
  c.num_key_value_heads = kHeads;
  c.head_dim = kHeadSize;
  return c;
}

Tensor random_rows(std::int64_t count, std::uint64_t seed) {
  return to(randn({count, kHeads, kHeadSize}, seed), kDevice);
}

Tensor numbers(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, kDevice);
}

// What is in caches of different sizes: nothing yet, more than a part of attention's, nearly everything.
struct Caches {
  explicit Caches(DType dtype) {
    const std::int64_t capacities[] = {40, 150, 300};
    for (std::size_t i = 0; i < 3; ++i) {
      caches.emplace_back(one_layer(), capacities[i], dtype, kDevice);
      if (lengths[i] > 0)
        caches.back().append(0, random_rows(lengths[i], i + 1), random_rows(lengths[i], i + 5));
      caches.back().advance(lengths[i]);
    }
  }
  std::vector<CacheSegment> segments(std::int64_t tokens) {
    std::vector<CacheSegment> result;
    for (KvCache& cache : caches) result.push_back({.cache = &cache, .tokens = tokens});
    return result;
  }
  std::vector<std::int32_t> behind(std::int64_t tokens) const {
    std::vector<std::int32_t> result;
    for (const std::int64_t length : lengths) result.push_back(static_cast<std::int32_t>(length + tokens));
    return result;
  }
  std::vector<std::int64_t> lengths{0, 130, 297};
  std::vector<KvCache> caches;
};

Tensor entries_of(std::span<const CacheSegment> segments) {
  const Tensor entries = Tensor::empty(cache_entries_shape(segments), DType::u8);
  write_cache_entries(segments, entries);
  return to(entries, kDevice);
}

TEST(DeviceCaches, TogetherHaveTheBitsOfOneAfterTheOther) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const std::int64_t tokens : {1, 3}) {
      Caches alone(dtype), together(dtype);
      const Tensor keys = random_rows(3 * tokens, 21), values = random_rows(3 * tokens, 22);
      const Tensor q = to(randn({3 * tokens, kGroup * kHeads, kHeadSize}, 23), kDevice);
      const Tensor starts = numbers(alone.behind(0)), ends = numbers(alone.behind(tokens));
      std::vector<CachedSequence> sequences;
      for (std::int64_t i = 0; i < 3; ++i) {
        KvCache& cache = alone.caches[static_cast<std::size_t>(i)];
        cache.append_behind(0, narrow(starts, 0, i, 1), narrow(keys, 0, i * tokens, tokens),
                            narrow(values, 0, i * tokens, tokens));
        const KvCache::Entries all = cache.entries(0, cache.capacity());
        sequences.push_back({.queries = tokens,
                             .keys = all.keys,
                             .values = all.values,
                             .key_scale = all.key_scale,
                             .value_scale = all.value_scale,
                             .length = narrow(ends, 0, i, 1)});
      }
      const Tensor entries = select(entries_of(together.segments(tokens)), 0, 0);
      append_to_all(together.caches[1], 0, entries, starts, keys, values);
      const KvCache::Entries like = together.caches[1].entries(0, 1);
      const Tensor expected = cached_attention(q, sequences),
                   found = cached_attention(q,
                                            {.entries = entries,
                                             .keys_like = like.keys,
                                             .values_like = like.values,
                                             .capacity = 300,
                                             .lengths = ends},
                                            {});
      EXPECT_EQ(to(found, kCpu).to_vector<float>(), to(expected, kCpu).to_vector<float>())
          << name(dtype) << tokens;
    }
  }
}

TEST(DeviceCaches, ShareLaunchesWhereSequencesMoveOnAlike) {
  Caches made(DType::bf16);
  auto segments = made.segments(2);
  EXPECT_TRUE(share_launches(segments));
  EXPECT_EQ(cache_entries_shape(segments).drop_last(), Shape({1, 3}));
  segments[1].tokens = 1;
  EXPECT_FALSE(share_launches(segments));
  EXPECT_FALSE(share_launches(made.segments(9)));
  const auto alone = made.segments(1);
  EXPECT_FALSE(share_launches(std::span(alone).first(1)));
}

}  // namespace
}  // namespace ingot
