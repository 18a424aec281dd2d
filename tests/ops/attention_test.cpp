#include "ingot/ops/attention.h"

#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

struct Size {
  std::int64_t batch, queries, keys, query_heads, key_heads, head_size, value_size;
};

std::vector<testing::InputSpec> inputs(const Size& s) {
  return {{Shape{s.batch, s.queries, s.query_heads, s.head_size}},
          {Shape{s.batch, s.keys, s.key_heads, s.head_size}},
          {Shape{s.batch, s.keys, s.key_heads, s.value_size}}};
}

void check(const std::string& name, const Size& size, const AttentionOptions& options) {
  check_op({.name = name,
            .op =
                [options](std::span<const Tensor> in) {
                  AttentionOptions there = options;
                  there.doc_start = testing::beside(options.doc_start, in);
                  there.kv_length = testing::beside(options.kv_length, in);
                  return attention(in[0], in[1], in[2], there);
                },
            .inputs = inputs(size),
            .half_tolerance = 6e-2});
}

Tensor doc_starts(const std::vector<std::vector<std::int32_t>>& lengths) {
  std::vector<std::int32_t> starts;
  std::int64_t row = 0;
  for (const auto& documents : lengths) {
    std::int32_t at = 0;
    for (const std::int32_t n : documents) {
      starts.insert(starts.end(), static_cast<std::size_t>(n), at);
      at += n;
    }
    row = at;
  }
  return Tensor::from(starts, {static_cast<std::int64_t>(lengths.size()), row});
}

TEST(Attention, HoldsForEveryShape) {
  for (const Size& size : {Size{1, 1, 1, 1, 1, 1, 1}, Size{2, 3, 3, 2, 2, 4, 4}, Size{1, 7, 7, 4, 2, 5, 5},
                           Size{2, 9, 9, 3, 1, 8, 6}, Size{1, 2, 9, 2, 1, 4, 4}, Size{2, 1, 11, 4, 2, 16, 16},
                           Size{1, 13, 13, 1, 1, 17, 3}}) {
    for (const bool causal : {true, false}) {
      check((causal ? "causal " : "full ") + std::to_string(size.queries) + "x" + std::to_string(size.keys),
            size, {.causal = causal});
    }
  }
}

TEST(Attention, MasksAndSoftcapHold) {
  const Size size{2, 10, 10, 2, 1, 6, 6};
  const Tensor documents = doc_starts({{3, 1, 6}, {10}});
  check("window", size, {.window = 3});
  check("window, both sides", size, {.causal = false, .window = 3});
  check("documents", size, {.doc_start = documents});
  check("documents, both sides", size, {.causal = false, .doc_start = documents});
  check("chunks", size, {.chunk = 4});
  check("chunks of documents", size, {.chunk = 2, .doc_start = documents});
  check("chunks of a cache", {2, 3, 9, 2, 1, 6, 6},
        {.chunk = 4, .kv_length = Tensor::from(std::vector<std::int32_t>{9, 5}, {2})});
  check("documents and window", size, {.window = 2, .doc_start = documents});
  check("softcap", size, {.softcap = 2.0F});
  check("scale", size, {.scale = 0.3F, .softcap = 5.0F});
  check("cache", {2, 2, 9, 2, 1, 6, 6}, {.kv_length = Tensor::from(std::vector<std::int32_t>{9, 5}, {2})});
  check("nothing to see", {2, 4, 6, 2, 1, 6, 6},
        {.kv_length = Tensor::from(std::vector<std::int32_t>{2, 0}, {2})});
}

void check_sinks(const std::string& name, const Size& size, const AttentionOptions& options) {
  std::vector<testing::InputSpec> specs = inputs(size);
  specs.push_back({Shape{size.query_heads}});
  check_op({.name = name,
            .op =
                [options](std::span<const Tensor> in) {
                  AttentionOptions there = options;
                  there.doc_start = testing::beside(options.doc_start, in);
                  there.sinks = in[3];
                  return attention(in[0], in[1], in[2], there);
                },
            .inputs = std::move(specs),
            .half_tolerance = 6e-2});
}

TEST(Attention, SinksAndTheirGradientsHold) {
  check_sinks("sinks", {2, 9, 9, 4, 2, 6, 5}, {});
  check_sinks("sinks, window and documents", {2, 10, 10, 2, 1, 6, 6},
              {.window = 3, .doc_start = doc_starts({{3, 1, 6}, {10}})});
}

// A key of zeros, seen by all, has the score 0, and a value of zeros adds nothing.
TEST(Attention, ASinkIsAKeyWithoutAValue) {
  const Tensor q = randn({1, 3, 2, 4}, 1), k = randn({1, 5, 2, 4}, 2), v = randn({1, 5, 2, 4}, 3);
  const auto with_zeros = [](const Tensor& x) {
    return concat(std::vector<Tensor>{Tensor::zeros({1, 1, 2, 4}), x}, 1);
  };
  EXPECT_LE(max_error(attention(q, k, v, {.sinks = Tensor::zeros({2})}),
                      attention(q, with_zeros(k), with_zeros(v))),
            1e-6);
}

// The dense formula in f64, with a mask that says for every pair whether i may see j.
template <class Allowed>
Tensor dense(const Tensor& q, const Tensor& k, const Tensor& v, Allowed&& allowed) {
  const std::int64_t S = q.dim(1), T = k.dim(1), H = q.dim(2), D = q.dim(3), group = H / k.dim(2);
  Tensor y = Tensor::zeros({q.dim(0), S, H, D}, DType::f64);
  const auto at = [](const Tensor& x, std::int64_t b, std::int64_t i, std::int64_t h) {
    return x.data<double>() + ((b * x.dim(1) + i) * x.dim(2) + h) * x.dim(3);
  };
  for (std::int64_t b = 0; b < q.dim(0); ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t i = 0; i < S; ++i) {
        double total = 0;
        for (std::int64_t j = 0; j < T; ++j) {
          if (!allowed(b, i, j)) continue;
          double s = 0;
          for (std::int64_t c = 0; c < D; ++c) s += at(q, b, i, h)[c] * at(k, b, j, h / group)[c];
          const double e = std::exp(s / std::sqrt(static_cast<double>(D)));
          total += e;
          for (std::int64_t c = 0; c < D; ++c) at(y, b, i, h)[c] += e * at(v, b, j, h / group)[c];
        }
        for (std::int64_t c = 0; c < D && total > 0; ++c) at(y, b, i, h)[c] /= total;
      }
    }
  }
  return y;
}

// Large enough for several tiles of queries and keys in each direction.
TEST(Attention, LongPackedSequencesEqualTheDenseFormula) {
  const NoGrad no_grad;
  const std::int64_t S = 333;
  const Tensor q = randn({2, S, 4, 16}, 1, DType::f64), k = randn({2, S, 2, 16}, 2, DType::f64),
               v = randn({2, S, 2, 16}, 3, DType::f64);
  const Tensor documents = doc_starts({{100, 1, 7, 225}, {290, 43}});
  const std::int32_t* start = documents.data<std::int32_t>();
  const auto f32 = [](const Tensor& x) { return to(x, DType::f32); };
  for (const bool causal : {true, false}) {
    for (const bool packed : {true, false}) {
      for (const std::int64_t window : {0, 50}) {
        const Tensor expected = dense(q, k, v, [&](std::int64_t b, std::int64_t i, std::int64_t j) {
          return (!packed || start[b * S + i] == start[b * S + j]) && (!causal || j <= i) &&
                 (window == 0 || std::abs(i - j) < window);
        });
        AttentionOptions options{.causal = causal, .window = window};
        if (packed) options.doc_start = documents;
        EXPECT_LE(max_error(attention(f32(q), f32(k), f32(v), options), expected), 5e-6)
            << causal << packed << window;
      }
    }
  }
}

TEST(Attention, LongSequencesInChunksEqualTheDenseFormula) {
  const NoGrad no_grad;
  const std::int64_t S = 333, chunk = 90;
  const Tensor q = randn({2, S, 4, 16}, 1, DType::f64), k = randn({2, S, 2, 16}, 2, DType::f64),
               v = randn({2, S, 2, 16}, 3, DType::f64);
  const Tensor documents = doc_starts({{100, 1, 7, 225}, {290, 43}});
  const std::int32_t* start = documents.data<std::int32_t>();
  const auto f32 = [](const Tensor& x) { return to(x, DType::f32); };
  for (const bool packed : {true, false}) {
    const Tensor expected = dense(q, k, v, [&](std::int64_t b, std::int64_t i, std::int64_t j) {
      const std::int64_t mine = packed ? start[b * S + i] : 0, theirs = packed ? start[b * S + j] : 0;
      return mine == theirs && j <= i && (j - mine) / chunk == (i - mine) / chunk;
    });
    AttentionOptions options{.chunk = chunk};
    if (packed) options.doc_start = documents;
    EXPECT_LE(max_error(attention(f32(q), f32(k), f32(v), options), expected), 5e-6) << packed;
  }
}

TEST(Attention, ChunksWithoutCausalityAreRefused) {
  const Tensor x = randn({1, 3, 1, 4}, 1);
  EXPECT_THROW(attention(x, x, x, {.causal = false, .chunk = 2}), InvalidConfig);
}

// Gradients of the fast kernels against the reference in f64 where several tiles take part.
TEST(Attention, LongGradientsEqualTheReference) {
  const std::int64_t S = 433;
  const Tensor documents = doc_starts({{100, 1, 7, 325}, {290, 143}});
  for (const AttentionOptions& options :
       {AttentionOptions{}, AttentionOptions{.causal = false}, AttentionOptions{.doc_start = documents},
        AttentionOptions{.causal = false, .doc_start = documents}, AttentionOptions{.window = 70},
        AttentionOptions{.softcap = 3.0F}, AttentionOptions{.chunk = 70}}) {
    std::vector<Tensor> grads[2];
    int which = 0;
    for (const DType dtype : {DType::f64, DType::f32}) {
      std::vector<Tensor> x;
      for (const auto& [heads, seed] : {std::pair{4, 1}, {2, 2}, {2, 3}}) {
        x.push_back(randn({2, S, heads, 20}, static_cast<std::uint64_t>(seed), dtype));
        x.back().set_requires_grad(true);
      }
      backward(attention(x[0], x[1], x[2], options), {.grad = randn({2, S, 4, 20}, 4, dtype)});
      for (const Tensor& t : x) grads[which].push_back(t.grad());
      ++which;
    }
    for (int i = 0; i < 3; ++i) EXPECT_LE(max_error(grads[1][i], grads[0][i]), 2e-5) << i;
  }
}

// Decoding one token at a time, and in chunks, gives what one pass over the whole sequence gives.
TEST(Attention, DecodingEqualsOnePass) {
  const NoGrad no_grad;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::int64_t T = 150;
    const Tensor q = randn({2, T, 6, 64}, 1, dtype), k = randn({2, T, 2, 64}, 2, dtype),
                 v = randn({2, T, 2, 64}, 3, dtype);
    const Tensor whole = attention(q, k, v);
    const auto slice = [](const Tensor& x, std::int64_t begin, std::int64_t count) {
      View view = x.view();
      view.data = view.as<char>() + begin * view.stride(1) * static_cast<std::int64_t>(byte_size(view.dtype));
      view.shape[1] = count;
      return Tensor(x.storage(), view);
    };
    for (const std::int64_t count : {1, 2, 5}) {
      for (const std::int64_t end : {5, 64, 65, 150}) {
        const Tensor expected = contiguous(slice(whole, end - count, count));
        const Tensor some = slice(q, end - count, count);
        const double tolerance = dtype == DType::f32 ? 5e-6 : 1e-2;
        EXPECT_LE(max_error(attention(some, slice(k, 0, end), slice(v, 0, end)), expected), tolerance)
            << count << " " << end;
        const auto length = static_cast<std::int32_t>(end);
        const Tensor lengths = Tensor::from(std::vector<std::int32_t>{length, length}, {2});
        EXPECT_LE(max_error(attention(some, k, v, {.kv_length = lengths}), expected), tolerance)
            << count << " " << end;
      }
    }
  }
}

TEST(Attention, FusedProjectionEqualsSeparateHeads) {
  const auto split = [](const Tensor& qkv, std::int64_t begin, std::int64_t count) {
    View v = qkv.view();
    v.data = v.as<char>() + begin * v.stride(2) * static_cast<std::int64_t>(byte_size(v.dtype));
    v.shape[2] = count;
    return Tensor(qkv.storage(), v);
  };
  const NoGrad no_grad;
  const Tensor qkv = randn({2, 130, 8, 32}, 1);
  EXPECT_LE(max_error(attention_qkv(qkv, 4, 2),
                      attention(contiguous(split(qkv, 0, 4)), contiguous(split(qkv, 4, 2)),
                                contiguous(split(qkv, 6, 2)))),
            1e-6);
  check_op({.name = "fused",
            .op = [](std::span<const Tensor> in) { return attention_qkv(in[0], 4, 2); },
            .inputs = {{Shape{2, 7, 8, 5}}},
            .half_tolerance = 6e-2});
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
  try {
    attention(Tensor::zeros({1, 2, 5, 4}), Tensor::zeros({1, 2, 2, 4}), Tensor::zeros({1, 2, 2, 4}));
    FAIL();
  } catch (const DimensionMismatch& e) {
    EXPECT_NE(std::string(e.what()).find("5 query heads"), std::string::npos) << e.what();
  }
  EXPECT_THROW(
      attention(Tensor::zeros({1, 2, 4, 4}), Tensor::zeros({1, 2, 2, 5}), Tensor::zeros({1, 2, 2, 5})),
      ShapeMismatch);
  EXPECT_THROW(
      attention(Tensor::zeros({1, 2, 4, 4}), Tensor::zeros({1, 2, 2, 4}), Tensor::zeros({1, 3, 2, 4})),
      ShapeMismatch);
  EXPECT_THROW(attention(Tensor::zeros({2, 4, 4}), Tensor::zeros({1, 2, 2, 4}), Tensor::zeros({1, 2, 2, 4})),
               DimensionMismatch);
  const Tensor x = Tensor::zeros({1, 2, 2, 4});
  EXPECT_THROW(attention(x, x, x, {.doc_start = Tensor::zeros({1, 3}, DType::i32)}), ShapeMismatch);
  EXPECT_THROW(attention(x, x, x, {.doc_start = Tensor::zeros({1, 2}, DType::i64)}), KernelError);
  EXPECT_THROW(attention_qkv(Tensor::zeros({1, 2, 7, 4}), 4, 2), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
