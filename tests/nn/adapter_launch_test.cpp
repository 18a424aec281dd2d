#include "ingot/nn/adapter_launch.h"

#include <cmath>
#include <memory>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

Tensor drawn(const Shape& shape, double std, std::uint64_t seed) {
  const Tensor x = Tensor::empty(shape, DType::f32);
  normal_(x, 0, std, {.seed = seed});
  return x;
}

// A layer with an adapter whose directions are of very different sizes, as training leaves them.
std::unique_ptr<Linear> adapted_linear(std::int64_t in, std::int64_t out, std::int64_t rank) {
  InitSource source(1);
  auto linear = std::make_unique<Linear>(source, LinearOptions{.in = in, .out = out, .bias = false});
  LowRankAdapter& adapter = linear->weight.add_adapter(source, "a", rank, 2.0F);
  const Tensor sizes = exp(drawn({rank, 1}, 1, 7));
  adapter.a.replace(drawn({rank, in}, 0.02, 2) * sizes);
  adapter.b.replace(drawn({out, rank}, 0.05, 3));
  return linear;
}

Tensor update_of(const Linear& linear) { return linear.weight.effective() - linear.weight.dense.value; }

double norm_of(const Tensor& x) {
  double sum = 0;
  for (const float value : x.to_vector<float>())
    sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

TEST(AdapterForInference, ADenseWeightsUpdateStaysAsItIs) {
  const NoGrad no_grad;
  const auto owned = adapted_linear(48, 40, 6);
  Linear& linear = *owned;
  const Tensor x = randn({5, 48}, 4), before = linear(x), update = update_of(linear);
  prepare_for_inference(*linear.weight.adapters.front(), linear.weight);
  EXPECT_LE(max_error(update_of(linear), update), 1e-7);
  EXPECT_LE(max_error(linear(x), before), 1e-6);
}

TEST(AdapterForInference, BesideAQuantizedWeightItsUpdateIsRoundedToEightBits) {
  const NoGrad no_grad;
  const auto owned = adapted_linear(64, 96, 8);
  Linear& linear = *owned;
  const Tensor update = update_of(linear);
  linear.weight.packed = quant::quantize_and_pack(linear.weight.dense.value, "q8_0");
  ASSERT_TRUE(linear.weight.is_quantized());
  const Tensor base = quant::values(*linear.weight.packed, DType::f32);
  prepare_for_inference(*linear.weight.adapters.front(), linear.weight);
  const Tensor rounded = linear.weight.effective() - base;
  EXPECT_LE(norm_of(rounded - update), 0.015 * norm_of(update));
  EXPECT_GT(norm_of(rounded - update), 0) << "in 8 bits";
}

}  // namespace
}  // namespace ingot
