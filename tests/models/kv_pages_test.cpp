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
  const std::int64_t shared = std::ssize(first.shared_blocks()) * first.page_tokens();
  ASSERT_GT(shared, 100);
  EXPECT_EQ(first.shareable(147), first.token_bytes() * static_cast<std::size_t>(shared));
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

// One layer sees everything, the other 100 tokens.
KvCache cache_with_a_window(DType dtype, std::int64_t most = 512) {
  LanguageConfig config = config_of_two_layers();
  config.sliding_window = 100;
  config.layer_types = {LayerKind::full, LayerKind::sliding};
  return KvCache(config, most, dtype, kCpu, most);
}

class CachesWithAWindow : public ::testing::TestWithParam<DType> {};

TEST_P(CachesWithAWindow, GiveBackTheBlocksBeforeItAndKeepWhatIsInIt) {
  KvCache cache = cache_with_a_window(GetParam());
  ASSERT_TRUE(cache.is_paged());
  EXPECT_FALSE(cache.drop_left_behind());
  append(cache, 500, 1);
  const auto last = [](const KvCache& of, std::int64_t count) {
    std::vector<std::vector<std::byte>> all;
    for (const Tensor& part : of.saved(of.length() - count, count)) {
      const auto* data = static_cast<const std::byte*>(part.view().data);
      all.emplace_back(data, data + part.nbytes());
    }
    return all;
  };
  const std::size_t whole = cache.nbytes();
  const auto before = last(cache, 150);
  KvCache other = cache_with_a_window(GetParam());
  other.copy_beginning(cache, 480);
  const auto others = content(other);
  ASSERT_TRUE(cache.drop_left_behind());
  EXPECT_FALSE(cache.drop_left_behind());
  const std::int64_t kept = 99 + KvCache::kTakenBack + cache.page_tokens();
  EXPECT_LE(cache.nbytes(), whole / 2 + whole / 2 * static_cast<std::size_t>(kept + 12) / 512);
  EXPECT_EQ(last(cache, 150), before);
  EXPECT_EQ(content(other), others) << "who shares them keeps them";
  EXPECT_EQ(cache.beginning(500), 500);
  EXPECT_EQ(cache.beginning(500 - KvCache::kTakenBack), 500 - KvCache::kTakenBack);
  EXPECT_EQ(cache.beginning(200), 0);
  // What is left goes on in another one.
  KvCache next = cache_with_a_window(GetParam());
  next.copy_beginning(cache, 500);
  EXPECT_EQ(last(next, 150), before);
  EXPECT_LT(next.nbytes(), whole);
  next.reserve(2000);  // moves
  EXPECT_EQ(last(next, 150), before);
  append(next, 100, 7);
  EXPECT_TRUE(next.drop_left_behind());
  EXPECT_EQ(last(cache, 150), before);
}

TEST_P(CachesWithAWindow, HoldEverythingAgainOnceTheyBeginAnew) {
  KvCache cache = cache_with_a_window(GetParam()), fresh = cache_with_a_window(GetParam());
  const std::size_t whole = cache.nbytes();
  append(cache, 500, 1);
  ASSERT_TRUE(cache.drop_left_behind());
  cache.truncate(200);
  EXPECT_EQ(cache.length(), 0) << "of which no window is left";
  EXPECT_EQ(cache.nbytes(), whole);
  append(cache, 300, 5);
  append(fresh, 300, 5);
  EXPECT_EQ(content(cache), content(fresh));
  EXPECT_EQ(cache.beginning(20), 20);
}

INSTANTIATE_TEST_SUITE_P(OfDtypes, CachesWithAWindow, ::testing::Values(DType::f32, DType::f16, DType::i8),
                         [](const auto& of) { return std::string(name(of.param)); });

// One layer sees everything, the other its chunk of 128 positions (Llama 4).
TEST(CachesWithChunks, GiveBackTheBlocksOfChunksLeftBehind) {
  LanguageConfig config = config_of_two_layers();
  config.attention_chunk_size = 128;
  config.layer_types = {LayerKind::full, LayerKind::chunked};
  KvCache cache(config, 512, DType::f32, kCpu, 512);
  ASSERT_TRUE(cache.is_paged());
  append(cache, 180, 1);
  EXPECT_FALSE(cache.drop_left_behind()) << "the first chunk may come back with kTakenBack tokens";
  append(cache, 320, 2);
  const std::size_t whole = cache.nbytes(), half = cache.token_bytes() / 2;
  ASSERT_TRUE(cache.drop_left_behind());
  // Behind 500 - kTakenBack tokens the chunk begins at 384.
  EXPECT_EQ(cache.nbytes(), whole - 384 * half);
  EXPECT_EQ(cache.beginning(500 - KvCache::kTakenBack), 500 - KvCache::kTakenBack);
  EXPECT_EQ(cache.beginning(384), 384) << "where a chunk begins anew";
  EXPECT_EQ(cache.beginning(383), 0);
  EXPECT_LT(cache.bytes_of(1 << 20, 16), cache.token_bytes() << 20U);
}

// Eight full blocks of a page, and another mapping of them, which tells how many still have their memory.
class FullPages {
 public:
  FullPages() {
    pages->hold(8 * block);
    std::fill_n(pages->tensor(0).data<float>(), 8 * block * 16, 3.0F);
    EXPECT_TRUE(share_pages(pages->tensor(0), 0, view_, 0, view_.nbytes()));
  }
  std::unique_ptr<KvPages> like() const { return KvPages::reserve(parts_, 8 * block, block, kCpu); }
  double left() const {  // tokens
    return std::accumulate(view_.data<float>(), view_.data<float>() + view_.numel(), 0.0) / 3 / 16;
  }

  const std::int64_t block = static_cast<std::int64_t>(page_bytes()) / 64;

 private:
  const std::vector<KvPages::Part> parts_{{.heads = 1, .row = 16, .dtype = DType::f32}};
  const Tensor view_ = reserve_tensor({8 * block * 16}, DType::f32, kCpu);

 public:
  std::unique_ptr<KvPages> pages = like();
};

TEST(KvPages, GiveBackTheMemoryOfWhatIsDropped) {
  FullPages full;
  const std::int64_t block = full.block;
  full.pages->drop(3 * block + 1);
  EXPECT_EQ(full.pages->dropped(), 3 * block);
  EXPECT_EQ(full.left(), 5 * block);
  full.pages->refill();
  EXPECT_EQ(full.pages->dropped(), 0);
  auto second = full.like();
  EXPECT_EQ(second->share(*full.pages, 8 * block), 8 * block);
  full.pages->drop(6 * block);
  EXPECT_EQ(full.left(), 5 * block) << "another holds them";
  second.reset();
  EXPECT_EQ(full.left(), 2 * block);
}

TEST(KvPages, DroppedBlocksGoThatNobodySharesThoughOthersAreShared) {
  FullPages full;
  const std::int64_t block = full.block;
  auto second = full.like();
  EXPECT_EQ(second->share(*full.pages, 4 * block), 4 * block);
  full.pages->drop(7 * block);
  EXPECT_EQ(full.left(), 5 * block) << "the four shared ones and the last";
}

TEST(KvPages, GiveBackWhatNobodyElseHoldsWhenTheyGo) {
  FullPages full;
  const std::int64_t block = full.block;
  auto second = full.like();
  EXPECT_EQ(second->share(*full.pages, 3 * block + 1), 3 * block);
  EXPECT_EQ(full.left(), 8 * block);
  full.pages.reset();
  EXPECT_EQ(full.left(), 3 * block);
  second->keep(block);
  EXPECT_EQ(full.left(), block);
  second.reset();
  EXPECT_EQ(full.left(), 0);
}

}  // namespace
}  // namespace ingot
