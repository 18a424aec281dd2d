#include "ingot/ops/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/kv_store.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

// [tokens, heads, size] as a cache holds it: [1, tokens, heads, size] over memory with heads outermost.
struct Stored {
  Tensor rows, scale;
  Tensor wide() const {
    const Tensor values = to(rows, DType::f32);
    return scale.defined() ? values * unsqueeze(scale, 3) : values;
  }
};

Stored store(const Tensor& x, DType dtype) {
  const Tensor memory = Tensor::empty({x.dim(1), x.dim(0), x.dim(2)}, dtype);
  const Tensor scale = dtype == DType::i8 ? Tensor::empty({x.dim(1), x.dim(0)}) : Tensor();
  kernels::launch(kernels::kv_store, current_stream(kCpu),
                  {.x = x.view(), .y = memory.view(), .scale = scale.view()});
  return {unsqueeze(transpose(memory, 0, 1), 0),
          scale.defined() ? unsqueeze(transpose(scale, 0, 1), 0) : Tensor()};
}

struct Sequence {
  Stored keys, values;
  CachedSequence first(std::int64_t queries, std::int64_t tokens) const {
    const auto cut = [tokens](const Tensor& x) { return x.defined() ? narrow(x, 1, 0, tokens) : x; };
    return {queries, cut(keys.rows), cut(values.rows), cut(keys.scale), cut(values.scale)};
  }
};

Sequence random_sequence(std::int64_t tokens, std::int64_t heads, std::int64_t size, DType dtype,
                         std::uint64_t seed) {
  return {store(randn({tokens, heads, size}, seed), dtype),
          store(randn({tokens, heads, size}, seed + 1), dtype)};
}

const DType kCacheDtypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8};

TEST(KvStore, EveryDtypeKeepsWhatItCan) {
  const NoGrad no_grad;
  for (const std::int64_t size : {64, 24, 3}) {  // vectors, and what only the reference takes
    const Tensor x = randn({5, 3, size}, 7);
    const Tensor expected = unsqueeze(x, 0);
    EXPECT_EQ(max_error(store(x, DType::f32).wide(), expected), 0);
    EXPECT_LE(max_error(store(x, DType::bf16).wide(), expected), 4e-3);
    EXPECT_LE(max_error(store(x, DType::f16).wide(), expected), 5e-4);
    EXPECT_LE(max_error(store(x, DType::i8).wide(), expected), 2e-2);  // half a step of max|x| / 127
  }
  const Stored zeros = store(Tensor::zeros({2, 1, 32}), DType::i8);
  EXPECT_EQ(max_error(zeros.wide(), Tensor::zeros({1, 2, 1, 32})), 0);
}

TEST(KvStore, RowsTooSmallAreZerosAndRowsThatAreNotNumbersShow) {
  const NoGrad no_grad;
  for (const std::int64_t size : {64, 3}) {  // vectors and the reference
    Tensor x = randn({4, 1, size}, 7);
    const float last[] = {0, NAN, -INFINITY, 1e-40F};
    for (std::int64_t i = 0; i < size; ++i) x.data<float>()[3 * size + i] = 1e-40F;
    for (std::int64_t row = 1; row < 4; ++row) x.data<float>()[(row + 1) * size - 1] = last[row];
    const Stored stored = store(x, DType::i8);
    const Tensor rows = contiguous(stored.rows), scale = contiguous(stored.scale);
    EXPECT_GT(scale.data<float>()[0], 0) << size;
    EXPECT_TRUE(std::isnan(scale.data<float>()[1])) << size;
    EXPECT_TRUE(std::isnan(scale.data<float>()[2])) << size;
    EXPECT_EQ(scale.data<float>()[3], 0) << size;
    for (std::int64_t i = size; i < 4 * size; ++i)
      EXPECT_EQ(rows.data<std::int8_t>()[i], 0) << size << " " << i;
  }
}

TEST(KvStore, APositionSaysWhereInTheWholeCacheRowsGo) {
  const NoGrad no_grad;
  for (const DType dtype : kCacheDtypes) {
    const Tensor x = randn({3, 2, 16}, 7);
    const Stored expected = store(x, dtype);
    for (const std::int64_t position : {0, 2, 3, 5}) {  // in a cache of 5: all fit, all, two, none
      const Tensor memory = Tensor::zeros({2, 5, 16}, dtype), scale = Tensor::zeros({2, 5});
      const Tensor at = Tensor::from(std::vector<std::int32_t>{static_cast<std::int32_t>(position)}, {1});
      kernels::launch(kernels::kv_store, current_stream(kCpu),
                      {.x = x.view(),
                       .y = memory.view(),
                       .scale = dtype == DType::i8 ? scale.view() : View{},
                       .position = at.view()});
      const Stored found{unsqueeze(transpose(memory, 0, 1), 0),
                         dtype == DType::i8 ? unsqueeze(transpose(scale, 0, 1), 0) : Tensor()};
      const std::int64_t fit = std::clamp<std::int64_t>(5 - position, 0, 3);
      EXPECT_EQ(max_error(narrow(found.wide(), 1, position, fit), narrow(expected.wide(), 1, 0, fit)), 0);
      const Tensor before = narrow(found.wide(), 1, 0, position);
      EXPECT_EQ(max_error(before, Tensor::zeros(before.shape())), 0) << name(dtype) << " " << position;
    }
  }
}

// Of vectors, and of what only the reference takes; the second ones apart in memory.
TEST(KvStore, TwoAtOnceHaveTheBytesOfEach) {
  const NoGrad no_grad;
  for (const DType dtype : kCacheDtypes) {
    for (const std::int64_t size : {64, 3}) {
      const Tensor keys = randn({5, 3, size}, 7), values = transpose(randn({3, 5, size}, 8), 0, 1);
      const auto memory = [&] { return Tensor::empty({3, 5, size}, dtype); };
      const bool quantized = dtype == DType::i8;
      const auto scales = [&] { return quantized ? Tensor::empty({3, 5}) : Tensor(); };
      const Tensor y[] = {memory(), memory()}, scale[] = {scales(), scales()};
      kernels::launch(kernels::kv_store, current_stream(kCpu),
                      {.x = keys.view(),
                       .y = y[0].view(),
                       .scale = scale[0].view(),
                       .also_x = values.view(),
                       .also_y = y[1].view(),
                       .also_scale = scale[1].view()});
      for (const int i : {0, 1}) {
        const Stored expected = store(i == 0 ? keys : values, dtype);
        const Stored found{unsqueeze(transpose(y[i], 0, 1), 0),
                           quantized ? unsqueeze(transpose(scale[i], 0, 1), 0) : Tensor()};
        EXPECT_EQ(max_error(found.wide(), expected.wide()), 0) << name(dtype) << " " << size << ": " << i;
      }
    }
  }
}

TEST(CachedAttention, EqualsAttentionOnWhatTheCacheHolds) {
  const NoGrad no_grad;
  for (const DType dtype : kCacheDtypes) {
    for (const std::int64_t size : {64, 20}) {
      for (const std::int64_t queries : {1, 5, 40}) {
        for (const auto& [window, chunk] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {9, 0}, {0, 16}}) {
          const Sequence s = random_sequence(70, 2, size, dtype, 3);
          const Tensor q = randn({queries, 6, size}, 11);
          const AttentionOptions options{.scale = 0.2F, .window = window, .chunk = chunk, .softcap = 4.0F};
          const Tensor expected = attention(unsqueeze(q, 0), s.keys.wide(), s.values.wide(), options);
          const CachedSequence whole = s.first(queries, 70);
          const Tensor found = cached_attention(q, std::span(&whole, 1), options);
          EXPECT_LE(max_error(unsqueeze(found, 0), expected), 2e-5)
              << name(dtype) << " " << size << " " << queries << " " << window << " " << chunk;
        }
      }
    }
  }
}

TEST(CachedAttention, SinksTakeTheirShareInEverySequence) {
  const NoGrad no_grad;
  const Tensor sinks = randn({6}, 5);
  for (const std::vector<std::int64_t>& counts : {std::vector<std::int64_t>{1, 1}, {3, 1}, {40, 2}}) {
    std::vector<CachedSequence> sequences;
    std::vector<Tensor> queries, expected;
    for (const std::int64_t count : counts) {
      const Sequence s = random_sequence(70, 2, 20, DType::f16, 30 + queries.size());
      queries.push_back(randn({count, 6, 20}, 40 + queries.size()));
      sequences.push_back(s.first(count, 70));
      expected.push_back(select(attention(unsqueeze(queries.back(), 0), s.keys.wide(), s.values.wide(),
                                          {.window = 9, .sinks = sinks}),
                                0, 0));
    }
    const Tensor found = cached_attention(concat(queries, 0), sequences, {.window = 9, .sinks = sinks});
    EXPECT_LE(max_error(found, concat(expected, 0)), 2e-5) << counts[0];
  }
}

TEST(CachedAttention, EveryImplementationGivesTheReferencesResult) {
  const NoGrad no_grad;
  for (const DType dtype : kCacheDtypes) {
    for (const std::int64_t queries : {1, 3, 33}) {
      const Sequence s = random_sequence(97, 3, 32, dtype, 5);
      const Tensor q = randn({queries, 3, 32}, 13);
      const CachedSequence whole = s.first(queries, 97);
      Tensor expected;
      {
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        expected = cached_attention(q, std::span(&whole, 1));
      }
      EXPECT_LE(max_error(cached_attention(q, std::span(&whole, 1)), expected), 2e-5) << name(dtype);
    }
  }
}

// Rounding to bf16 changes a number by at most 2⁻⁹ of it. Scores here are sums of 48 products of normal
// numbers, over √48: one changes by some 2⁻⁹, as does the mean of the values, which are below 4.
TEST(CachedAttention, Bf16MatmulsAreAsCloseAsTheirRounding) {
  const NoGrad no_grad;
  for (const DType dtype : kCacheDtypes) {
    for (const std::int64_t size : {48, 20}) {
      for (const std::int64_t window : {0, 9}) {
        const Sequence s = random_sequence(300, 2, size, dtype, 3);
        const Tensor q = randn({201, 6, size}, 11);
        const CachedSequence whole = s.first(201, 300);
        const Tensor exact = cached_attention(q, std::span(&whole, 1), {.window = window});
        const Tensor found =
            cached_attention(q, std::span(&whole, 1), {.window = window, .bf16_matmuls = true});
        EXPECT_LE(max_error(found, exact), 0.03) << name(dtype) << " " << size << " " << window;
        double squares = 0;
        for (std::int64_t i = 0; i < found.numel(); ++i)
          squares += std::pow(found.data<float>()[i] - exact.data<float>()[i], 2);
        EXPECT_LE(std::sqrt(squares / static_cast<double>(found.numel())), 2e-3)
            << name(dtype) << " " << size;
        if (window > 0) continue;
        // The same bits, however many of the queries come together.
        const CachedSequence earlier = s.first(101, 200), later = s.first(100, 300);
        const CachedSequence parts[] = {earlier, later};
        EXPECT_EQ(max_error(cached_attention(q, parts, {.window = window, .bf16_matmuls = true}), found), 0);
      }
    }
  }
}

TEST(CachedAttention, AQuerysBitsDependOnNothingElseInTheCall) {
  const NoGrad no_grad;
  const int threads = num_threads();
  for (const DType dtype : kCacheDtypes) {
    std::vector<Sequence> sequences;
    for (std::uint64_t i = 0; i < 3; ++i) sequences.push_back(random_sequence(50, 2, 32, dtype, 20 + i));
    const Tensor q = randn({12, 8, 32}, 17);  // four of each sequence
    std::vector<CachedSequence> together;
    for (const Sequence& s : sequences) together.push_back(s.first(4, 50));
    set_num_threads(2);
    const Tensor all = cached_attention(q, together);
    set_num_threads(1);
    for (std::int64_t i = 0; i < 12; ++i) {
      const CachedSequence alone = sequences[static_cast<std::size_t>(i / 4)].first(1, 47 + i % 4);
      EXPECT_EQ(max_error(cached_attention(narrow(q, 0, i, 1), std::span(&alone, 1)), narrow(all, 0, i, 1)),
                0)
          << name(dtype) << " query " << i;
    }
  }
  set_num_threads(threads);
}

TEST(CachedAttention, ShapesThatDoNotFitAreNamed) {
  const NoGrad no_grad;
  const Sequence s = random_sequence(5, 2, 16, DType::f32, 1);
  const CachedSequence one = s.first(1, 5), many = s.first(6, 5);
  EXPECT_THROW(cached_attention(randn({2, 4, 16}, 1), std::span(&one, 1)), ShapeMismatch);
  EXPECT_THROW(cached_attention(randn({1, 3, 16}, 1), std::span(&one, 1)), ShapeMismatch);
  EXPECT_THROW(cached_attention(randn({6, 4, 16}, 1), std::span(&many, 1)), ShapeMismatch);
  EXPECT_THROW(cached_attention(randn({4, 16}, 1), std::span(&one, 1)), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
