#include "ingot/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Attention on tensor cores where several tiles and steps take part, against the reference in f64.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;
using test::largest;

struct Sizes {
  std::int64_t queries, keys, query_heads, key_heads, head, value;
};

struct AttentionResults {
  Tensor out, dq, dk, dv;
};

// `inputs`: q, k, v and what out is weighted with.
AttentionResults run_attention(const std::vector<Tensor>& inputs, const AttentionOptions& options) {
  std::vector<Tensor> x;
  for (const Tensor& input : inputs) {
    x.push_back(input.detach());
    x.back().set_requires_grad(true);
  }
  AttentionOptions there = options;
  if (options.doc_start.defined()) there.doc_start = to(options.doc_start, x[0].device());
  if (options.kv_length.defined()) there.kv_length = to(options.kv_length, x[0].device());
  const Tensor out = attention(x[0], x[1], x[2], there);
  backward(sum(out * inputs[3]));
  return {out, x[0].grad(), x[1].grad(), x[2].grad()};
}

/// Which of our kernels takes it.
const char* implementation_for(DType dtype) { return dtype == DType::f32 ? "tiled" : "tensor_cores"; }

// Both sides get the same rounded inputs, so what is left is rounding within: probabilities and gradients of
// scores in the half type, and the result's own.
void expect_reference(const char* seen, const Sizes& s, const AttentionOptions& options, DType dtype) {
  std::vector<Tensor> exact, halves;
  std::uint64_t seed = 1;
  for (const auto& [length, heads, size] : {std::tuple{s.queries, s.query_heads, s.head},
                                            {s.keys, s.key_heads, s.head},
                                            {s.keys, s.key_heads, s.value},
                                            {s.queries, s.query_heads, s.value}}) {
    halves.push_back(to(to(randn({2, length, heads, size}, seed++, DType::f64), dtype), kDevice));
    exact.push_back(to(to(halves.back(), kCpu), DType::f64));
  }
  const AttentionResults expected = run_attention(exact, options);
  const auto compare = [&](const AttentionResults& actual, const char* who) {
    const double bound = dtype == DType::bf16 ? 0x1p-6 : dtype == DType::f16 ? 0x1p-9 : 0x1p-17;
    for (const auto& [what, a, e] : {std::tuple{"out", actual.out, expected.out},
                                     {"dq", actual.dq, expected.dq},
                                     {"dk", actual.dk, expected.dk},
                                     {"dv", actual.dv, expected.dv}})
      EXPECT_LE(max_error(a, e), bound * largest(e)) << seen << ' ' << what << ' ' << name(dtype) << who;
  };
  if (test::library_comes_first(kernels::attention))
    compare(run_attention(halves, options), ", as a GPU runs it");
  const kernels::LaunchProfile profile;
  const AttentionResults own = [&] {
    const kernels::ForceKind kind(kernels::ImplKind::cuda);
    return run_attention(halves, options);
  }();
  compare(own, "");
  for (const kernels::LaunchProfile::Entry& entry : profile.entries())
    if (std::string_view(entry.kernel).starts_with("attention"))
      EXPECT_STREQ(entry.implementation, implementation_for(dtype));
}

Tensor doc_starts(const std::vector<std::vector<std::int32_t>>& lengths) {
  std::vector<std::int32_t> starts;
  for (const auto& documents : lengths) {
    std::int32_t at = 0;
    for (const std::int32_t n : documents) {
      starts.insert(starts.end(), static_cast<std::size_t>(n), at);
      at += n;
    }
  }
  return Tensor::from(starts, {static_cast<std::int64_t>(lengths.size()),
                               static_cast<std::int64_t>(starts.size() / lengths.size())});
}

TEST(CudaAttention, SeveralTilesEqualTheReference) {
  const Tensor documents = doc_starts({{100, 1, 7, 42}, {17, 133}});
  const Sizes size{150, 150, 2, 1, 32, 32};
  for (const DType dtype : {DType::bf16, DType::f16}) expect_reference("causal", size, {}, dtype);
  expect_reference("full", size, {.causal = false}, DType::bf16);
  expect_reference("window", size, {.window = 20}, DType::bf16);
  expect_reference("window, both sides", size, {.causal = false, .window = 20}, DType::bf16);
  expect_reference("documents", size, {.doc_start = documents}, DType::bf16);
  expect_reference("chunks", size, {.chunk = 40}, DType::bf16);
  expect_reference("chunks of documents", size, {.chunk = 40, .doc_start = documents}, DType::bf16);
  expect_reference("documents, both sides", size, {.causal = false, .doc_start = documents}, DType::bf16);
  expect_reference("softcap", size, {.softcap = 2.0F}, DType::bf16);
  expect_reference("negative scale", size, {.scale = -0.3F}, DType::bf16);
}

TEST(CudaAttention, InteriorTilesEqualTheReference) {
  for (const bool causal : {true, false})
    expect_reference("interior", {256, 256, 1, 1, 8, 8}, {.causal = causal}, DType::f16);
  expect_reference("interior of a window", {256, 256, 1, 1, 8, 8}, {.window = 200}, DType::f16);
}

TEST(CudaAttention, EveryHeadSizeEqualsTheReference) {
  for (const auto& [head, value] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {128, 128}, {80, 40}, {256, 256}, {8, 200}})
    expect_reference(("heads of " + std::to_string(head)).c_str(), {70, 70, 2, 1, head, value}, {},
                     DType::bf16);
}

TEST(CudaAttention, WideHeadsInF32EqualTheReference) {
  expect_reference("wide", {70, 70, 2, 1, 160, 256}, {}, DType::f32);
  expect_reference("wide, window", {40, 70, 2, 1, 256, 136}, {.window = 20}, DType::f32);
}

TEST(CudaAttention, CachesThatAreNotFullEqualTheReference) {
  const AttentionOptions half_empty{.kv_length = Tensor::from(std::vector<std::int32_t>{97, 30}, {2})};
  expect_reference("cache", {30, 130, 2, 1, 64, 64}, half_empty, DType::bf16);
  const AttentionOptions nothing{.kv_length = Tensor::from(std::vector<std::int32_t>{97, 0}, {2})};
  expect_reference("nothing to see", {30, 130, 2, 1, 64, 64}, nothing, DType::bf16);
}

/// Results for inputs of `length` positions whose `hidden` ones hold `value`.
AttentionResults with_hidden(double value, const std::vector<std::pair<std::int64_t, std::int64_t>>& hidden,
                             bool of_queries, std::int64_t queries, std::int64_t keys, DType dtype,
                             const AttentionOptions& options) {
  std::vector<Tensor> inputs;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::int64_t length = i % 3 == 0 ? queries : keys;
    Tensor x = randn({static_cast<std::int64_t>(hidden.size()), length, 1, 8}, i + 1);
    if (of_queries || length == keys) {
      for (std::size_t b = 0; b < hidden.size(); ++b) {
        float* sequence = x.data<float>() + static_cast<std::int64_t>(b) * length * 8;
        std::fill(sequence + hidden[b].first * 8, sequence + hidden[b].second * 8, static_cast<float>(value));
      }
    }
    inputs.push_back(to(to(x, dtype), kDevice));
  }
  const kernels::ForceKind own(kernels::ImplKind::cuda);
  return run_attention(inputs, options);
}

TEST(CudaAttention, WhatACacheHoldsBehindItsLengthIsNotLookedAt) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const bool causal : {true, false}) {
      const AttentionOptions options{.causal = causal,
                                     .kv_length = Tensor::from(std::vector<std::int32_t>{97, 30, 0}, {3})};
      const auto run = [&](double value) {
        return with_hidden(value, {{97, 130}, {30, 130}, {0, 130}}, false, 30, 130, dtype, options);
      };
      const AttentionResults clean = run(0), found = run(NAN);
      EXPECT_EQ(max_error(found.out, clean.out), 0) << name(dtype);
      EXPECT_EQ(max_error(found.dq, clean.dq), 0) << name(dtype);
      EXPECT_EQ(max_error(found.dk, clean.dk), 0) << name(dtype);
      EXPECT_EQ(max_error(found.dv, clean.dv), 0) << name(dtype);
    }
  }
}

// A block's tile is 128 positions at the most: those from 128 on share none with the first document, of 100.
// (Some of the queries before them do, whose gradients come to keys behind them where nothing is causal.)
TEST(CudaAttention, DocumentsThatNoneOfABlockSeesAreNotLookedAt) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const bool causal : {true, false}) {
      const AttentionOptions options{.causal = causal, .doc_start = doc_starts({{100, 92}})};
      const auto run = [&](double value) {
        return with_hidden(value, {{0, 100}}, true, 192, 192, dtype, options);
      };
      const AttentionResults clean = run(0), found = run(NAN);
      const auto behind = [](const Tensor& x) { return narrow(x, 1, 128, 64); };
      EXPECT_EQ(max_error(behind(found.out), behind(clean.out)), 0) << name(dtype);
      EXPECT_EQ(max_error(behind(found.dq), behind(clean.dq)), 0) << name(dtype);
      if (causal) EXPECT_EQ(max_error(behind(found.dk), behind(clean.dk)), 0) << name(dtype);
      EXPECT_EQ(max_error(behind(found.dv), behind(clean.dv)), 0) << name(dtype);
    }
  }
}

// A step that finds no larger score must not change what was summed: equal scores give the sum of as many
// equal weights, to the last bits, however many steps of keys there are.
TEST(CudaAttention, SumsOfManyKeysDoNotDrift) {
  constexpr std::int64_t kKeys = 4096, kHead = 64;
  const auto filled = [](std::int64_t length, float value) {
    return to(to(testing::filled({1, length, 1, kHead}, value), DType::f16), kDevice);
  };
  for (const float each : {2.125F, 2.6875F}) {
    const Tensor q = filled(1, each), k = filled(kKeys, each), v = filled(kKeys, 1.0F), out = filled(1, 0.0F);
    const Tensor lse = Tensor::empty({1, 1, 1}, DType::f32, kDevice);
    {
      const kernels::ForceKind kind(kernels::ImplKind::cuda);
      launch(kernels::attention, current_stream(kDevice),
             {.q = q.view(),
              .k = k.view(),
              .v = v.view(),
              .out = out.view(),
              .lse = lse.view(),
              .mask = {.causal = false},
              .scale = 0.3F});
    }
    const double score = 0.3F * double{each} * double{each} * kHead;
    EXPECT_NEAR(lse.item(), score + std::log(static_cast<double>(kKeys)), 3e-5) << score;
    EXPECT_EQ(max_error(out, filled(1, 1.0F)), 0.0) << score;
  }
}

// As heads have them that look at one token only, and away from it. A kernel that takes what lies behind the
// last key, or query, for one whose score is 0 finds weights of infinity there.
TEST(CudaAttention, GradientsOfScoresFarBelowZeroAreNumbers) {
  const auto heads = [](std::int64_t length, std::uint64_t seed, double first) {
    Tensor x = randn({1, length, 1, 16}, seed);
    for (std::int64_t i = 0; first != 0 && i < length; ++i)
      x.data<float>()[16 * i] = static_cast<float>(first);
    return to(to(x, DType::bf16), kDevice);
  };
  for (const auto& [queries, keys] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {70, 192}, {100, 100}, {1, 128}}) {
    for (const bool causal : {true, false}) {
      const std::vector<Tensor> inputs{heads(queries, 1, 1), heads(keys, 2, -480), heads(keys, 3, 0),
                                       heads(queries, 4, 0)};  // scores of some -120
      const auto check = [&](const AttentionResults& found, const char* who) {
        for (const auto& [what, x] :
             {std::pair{"out", found.out}, {"dq", found.dq}, {"dk", found.dk}, {"dv", found.dv}})
          EXPECT_LT(largest(x), 1e3) << what << " of " << queries << " queries of " << keys << who;
      };
      if (test::library_comes_first(kernels::attention))
        check(run_attention(inputs, {.causal = causal}), ", as a GPU runs it");
      const AttentionResults own = [&] {
        const kernels::ForceKind kind(kernels::ImplKind::cuda);
        return run_attention(inputs, {.causal = causal});
      }();
      check(own, "");
    }
  }
}

// As tensors that come from elsewhere have them.
TEST(CudaAttention, TheStrideOfAnAxisOfOneDoesNotMatter) {
  const Tensor q = to(randn({1, 40, 1, 16}, 1, DType::bf16), kDevice), expected = Tensor::empty_like(q),
               found = Tensor::empty_like(q), lse = Tensor::empty({1, 1, 40}, DType::f32, kDevice);
  View odd = q.view();
  odd.strides[0] = odd.strides[2] = 3;
  for (const auto& [x, out] : {std::pair{q.view(), expected.view()}, {odd, found.view()}}) {
    const kernels::ForceKind kind(kernels::ImplKind::cuda);
    launch(kernels::attention, current_stream(kDevice),
           {.q = x, .k = x, .v = x, .out = out, .lse = lse.view(), .scale = 0.25F});
  }
  EXPECT_EQ(max_error(found, expected), 0.0);
}

}  // namespace
}  // namespace ingot
