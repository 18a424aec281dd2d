// Attention from matmuls, which wide heads take where a device has no kernel: what the kernels give.
#include "ingot/ops/composed_attention.h"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

struct Size {
  std::int64_t batch, queries, keys, query_heads, key_heads, head_size, value_size;
};

// Leaves of random numbers, as attention takes them.
std::vector<Tensor> leaves(const Size& s) {
  std::vector<Tensor> all{randn({s.batch, s.queries, s.query_heads, s.head_size}, 1),
                          randn({s.batch, s.keys, s.key_heads, s.head_size}, 2),
                          randn({s.batch, s.keys, s.key_heads, s.value_size}, 3)};
  for (Tensor& x : all) x.set_requires_grad(true);
  return all;
}

void expect_same(const std::string& name, const Size& size, AttentionOptions options) {
  options.scale = 1 / std::sqrt(static_cast<float>(size.head_size));
  const std::vector<Tensor> a = leaves(size), b = leaves(size);
  const Tensor whole = attention(a[0], a[1], a[2], options),
               composed = composed_attention(b[0], b[1], b[2], options);
  EXPECT_LE(max_error(composed, whole), 1e-5) << name;
  const Tensor gradient = randn(whole.shape(), 4);
  backward(sum(whole * gradient));
  backward(sum(composed * gradient));
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE(max_error(b[i].grad(), a[i].grad()), 2e-5) << name << ", input " << i;
}

TEST(ComposedAttention, HasTheNumbersAndGradientsOfTheKernels) {
  const Tensor documents =
      Tensor::from(std::vector<std::int32_t>{0, 0, 0, 3, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 8});
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{9, 5}, {2});
  const Size square{2, 8, 8, 4, 2, 6, 5};
  for (const bool causal : {true, false}) {
    const std::string kind = causal ? "causal" : "both ways";
    expect_same(kind, square, {.causal = causal});
    expect_same(kind + ", window", square, {.causal = causal, .window = 3});
    expect_same(kind + ", documents", square, {.causal = causal, .doc_start = documents});
    expect_same(kind + ", window of documents", square,
                {.causal = causal, .window = 2, .doc_start = documents});
    expect_same(kind + ", softcap", square, {.causal = causal, .softcap = 1.5F});
    expect_same(kind + ", a cache", {2, 3, 9, 2, 1, 6, 6}, {.causal = causal, .kv_length = lengths});
  }
  expect_same("chunks", square, {.chunk = 3});
  expect_same("chunks of documents", square, {.chunk = 2, .doc_start = documents});
  expect_same("chunks of a cache", {2, 3, 9, 2, 1, 6, 6}, {.chunk = 4, .kv_length = lengths});
  expect_same("few queries", {1, 2, 9, 3, 3, 4, 4}, {});
}

TEST(ComposedAttention, SinksTakeTheirShareAndHaveGradients) {
  const Size size{2, 5, 5, 4, 2, 6, 6};
  Tensor one = randn({4}, 5), other = randn({4}, 5);
  one.set_requires_grad(true);
  other.set_requires_grad(true);
  expect_same("sinks", size, {.sinks = randn({4}, 5)});
  const std::vector<Tensor> x = leaves(size);
  const Tensor gradient = randn({2, 5, 4, 6}, 6);
  backward(sum(attention(x[0], x[1], x[2], {.scale = 0.5F, .sinks = one}) * gradient));
  backward(sum(composed_attention(x[0], x[1], x[2], {.scale = 0.5F, .sinks = other}) * gradient));
  EXPECT_LE(max_error(other.grad(), one.grad()), 2e-5);
}

// A sequence whose cache holds less than the queries: the first see nothing.
TEST(ComposedAttention, AQueryThatSeesNothingGivesZeros) {
  const std::vector<Tensor> x = leaves({1, 3, 4, 2, 1, 4, 4});
  const Tensor length = Tensor::from(std::vector<std::int32_t>{2}, {1});
  const Tensor y = composed_attention(x[0], x[1], x[2], {.scale = 1, .kv_length = length});
  EXPECT_EQ(max_error(narrow(y, 1, 0, 1), Tensor::zeros({1, 1, 2, 4})), 0);
  backward(sum(y * randn(y.shape(), 7)));
  for (const Tensor& leaf : x)
    for (const float value : leaf.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(ComposedAttention, NanOfAQueryStaysNan) {
  const Tensor q = randn({1, 3, 1, 4}, 1), k = randn({1, 3, 1, 4}, 2), v = randn({1, 3, 1, 4}, 3);
  const Tensor bad = where(
      less(Tensor::from(std::vector<float>{0, 1, 2}, {1, 3, 1, 1}), Tensor::from(std::vector<float>{1}, {1})),
      Tensor::from(std::vector<float>{NAN}, {1}), q);
  const std::vector<float> y = composed_attention(bad, k, v, {.scale = 1}).to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 4) << i;  // the first query
}

// Where the device has kernels for them, and where it has not (256 elements at most on a GPU).
TEST(ComposedAttention, HeadsOfAnyWidthHaveAttentionAndGradientsOnEveryDevice) {
  testing::check_op({.name = "a wide head",
                     .op = [](std::span<const Tensor> in) { return attention(in[0], in[1], in[2]); },
                     .inputs = {{Shape{1, 2, 2, 264}}, {Shape{1, 3, 1, 264}}, {Shape{1, 3, 1, 264}}},
                     .half_tolerance = 6e-2});
  testing::check_op({.name = "wide heads in one projection",
                     .op = [](std::span<const Tensor> in) { return attention_qkv(in[0], 1, 1); },
                     .inputs = {{Shape{1, 2, 3, 264}}},
                     .half_tolerance = 6e-2});
}

}  // namespace
}  // namespace ingot
