#include "ingot/models/language/kv_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/core/reserved_memory.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

constexpr std::int64_t kHeads = 2, kSize = 64;

LanguageConfig config_of_two_layers() {
  LanguageConfig config;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads = kHeads;
  config.hidden_size = kHeads * kSize;
  config.head_dim = kSize;
  return config;
}

KvCache paged_cache(DType dtype) {
  KvCache cache(config_of_two_layers(), 200, dtype, kCpu, 512);
  EXPECT_TRUE(cache.is_paged());
  return cache;
}

// Tokens whose rows tell `seed` and their place.
void append(KvCache& cache, std::int64_t tokens, float seed) {
  const Tensor rows = Tensor::empty({tokens, kHeads, kSize});
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    rows.data<float>()[i] = seed + static_cast<float>((i / kSize + cache.length()) % 97) / 4;
  const DType dtype = cache.dtype() == DType::i8 ? DType::f32 : cache.dtype();
  const Tensor given = to(rows, dtype);
  for (std::int64_t layer = 0; layer < cache.layers(); ++layer) cache.append(layer, given, given);
  cache.advance(tokens);
}

std::vector<std::vector<std::byte>> content(const KvCache& cache) {
  std::vector<std::vector<std::byte>> all;
  for (const Tensor& part : cache.saved(0, cache.length())) {
    const auto* data = static_cast<const std::byte*>(part.view().data);
    all.emplace_back(data, data + part.nbytes());
  }
  return all;
}

class SharedCaches : public ::testing::TestWithParam<DType> {};

TEST_P(SharedCaches, HoldWholeBlocksOfACommonBeginningOnce) {
  KvCache first = paged_cache(GetParam());
  append(first, 150, 1);
  KvCache second = paged_cache(GetParam());
  second.copy_beginning(first, 147);
  const std::int64_t shared = first.shareable(147);
  ASSERT_GT(shared, 100);
  EXPECT_EQ(std::ssize(first.shared_blocks()) * first.page_tokens(), shared);
  EXPECT_EQ(first.shared_blocks(), second.shared_blocks());
  first.truncate(147);
  EXPECT_EQ(content(second), content(first));
}

TEST_P(SharedCaches, CopyABlockBeforeTheyWriteThere) {
  KvCache first = paged_cache(GetParam());
  append(first, 160, 1);
  KvCache second = paged_cache(GetParam()), third = paged_cache(GetParam());
  second.copy_beginning(first, 160);
  third.copy_beginning(second, 130);
  const auto whole = content(first), part = content(third);
  second.truncate(70);
  append(second, 100, 5);
  EXPECT_EQ(content(first), whole);
  EXPECT_EQ(content(third), part);
  const auto rewritten = content(second);
  first.truncate(10);
  append(first, 120, 9);
  EXPECT_EQ(content(second), rewritten);
  EXPECT_EQ(content(third), part);
}

TEST_P(SharedCaches, KeepABeginningWhoseFirstOwnerHasGone) {
  auto first = std::make_unique<KvCache>(paged_cache(GetParam()));
  append(*first, 160, 1);
  KvCache second = paged_cache(GetParam());
  second.copy_beginning(*first, 160);
  const auto whole = content(*first);
  first.reset();
  EXPECT_TRUE(second.shared_blocks().empty());
  EXPECT_EQ(content(second), whole);
  KvCache third = paged_cache(GetParam());
  third.copy_beginning(second, 160);
  second.shrink(0);
  second.reserve(3000);  // moves
  EXPECT_EQ(content(third), whole);
  EXPECT_EQ(content(second), whole);
}

INSTANTIATE_TEST_SUITE_P(OfDtypes, SharedCaches, ::testing::Values(DType::f32, DType::f16, DType::i8),
                         [](const auto& of) { return std::string(name(of.param)); });

TEST(KvPages, GiveBackWhatNobodyElseHoldsWhenTheyGo) {
  const std::int64_t block = static_cast<std::int64_t>(page_bytes()) / 64;
  const std::vector<KvPages::Part> parts{{.heads = 1, .row = 16, .dtype = DType::f32}};
  auto first = KvPages::reserve(parts, 8 * block, block, kCpu);
  ASSERT_NE(first, nullptr);
  first->hold(8 * block);
  float* rows = first->tensor(0).data<float>();
  std::fill_n(rows, 8 * block * 16, 3.0F);
  // A mapping of the same pages tells what becomes of them.
  const Tensor view = reserve_tensor({8 * block * 16}, DType::f32, kCpu);
  ASSERT_TRUE(share_pages(first->tensor(0), 0, view, 0, view.nbytes()));
  auto second = KvPages::reserve(parts, 8 * block, block, kCpu);
  EXPECT_EQ(second->share(*first, 3 * block + 1), 3 * block);
  const auto left = [&] {
    return std::accumulate(view.data<float>(), view.data<float>() + view.numel(), 0.0) / 3 / 16;
  };
  EXPECT_EQ(left(), 8 * block);
  first.reset();
  EXPECT_EQ(left(), 3 * block);
  second->keep(block);
  EXPECT_EQ(left(), block);
  second.reset();
  EXPECT_EQ(left(), 0);
}

}  // namespace
}  // namespace ingot
