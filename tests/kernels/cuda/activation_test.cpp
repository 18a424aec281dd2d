#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// The device's activations take the approximations of its special units: here over the whole range of f32.
namespace ingot {
namespace {

using kernels::UnaryOp;
using test::kDevice;

constexpr UnaryOp kActivations[] = {UnaryOp::sigmoid, UnaryOp::tanh, UnaryOp::silu, UnaryOp::gelu_erf,
                                    UnaryOp::gelu_tanh};

Tensor unary(const Tensor& x, UnaryOp op) {
  Tensor y = Tensor::empty_like(x);
  launch(kernels::unary, current_stream(x.device()), {.x = x.view(), .y = y.view(), .op = op});
  return y;
}
Tensor derivative(const Tensor& saved, UnaryOp op) {
  const Tensor one = saved * 0.0 + 1.0, dx = Tensor::empty_like(saved);
  launch(kernels::unary_backward, current_stream(saved.device()),
         {.saved = saved.view(), .dy = one.view(), .dx = dx.view(), .op = op});
  return dx;
}

std::vector<float> points() {
  std::vector<float> points;
  for (int i = -2000; i <= 2000; ++i) points.push_back(static_cast<float>(i) * 0.01F);
  for (const float v :
       {1e-30F, 1e-10F, 1e-4F, 40.0F, 60.0F, 85.0F, 87.5F, 88.5F, 90.0F, 100.0F, 1e4F, 1e9F}) {
    points.push_back(v);
    points.push_back(-v);
  }
  return points;
}

void expect_near(const Tensor& found, const Tensor& expected, const std::vector<float>& at, UnaryOp op) {
  const std::vector<float> got = found.to_vector<float>();
  const std::vector<double> want = expected.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    // GELU's 1 + erf cancels for every negative x, and x multiplies what is left.
    const double cancelled = op == UnaryOp::gelu_erf ? 1.2e-7 * std::abs(at[i]) : 0.0;
    EXPECT_LE(std::abs(got[i] - want[i]), 1e-6 * std::abs(want[i]) + 3e-7 + cancelled)
        << static_cast<int>(op) << "(" << at[i] << ") = " << got[i] << ", want " << want[i];
  }
}

TEST(CudaActivation, IsAccurateOverTheWholeRange) {
  const std::vector<float> at = points();
  const Tensor x = Tensor::from(at, {static_cast<std::int64_t>(at.size())}), exact = to(x, DType::f64);
  for (const UnaryOp op : kActivations) {
    SCOPED_TRACE("forward");
    expect_near(unary(to(x, kDevice), op), unary(exact, op), at, op);
  }
}

TEST(CudaActivation, HasAnAccurateDerivativeOverTheWholeRange) {
  const std::vector<float> at = points();
  const Tensor x = Tensor::from(at, {static_cast<std::int64_t>(at.size())}), exact = to(x, DType::f64);
  for (const UnaryOp op : {UnaryOp::silu, UnaryOp::gelu_erf, UnaryOp::gelu_tanh, UnaryOp::softplus}) {
    SCOPED_TRACE("derivative");
    expect_near(derivative(to(x, kDevice), op), derivative(exact, op), at, op);
  }
}

TEST(CudaActivation, OfNanIsNanAndOfInfinityItsLimit) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = to(to(Tensor::from(std::vector<float>{nan, inf, -inf}, {3}), dtype), kDevice);
    for (const UnaryOp op : kActivations) {
      const std::vector<float> y = to(unary(x, op), DType::f32).to_vector<float>();
      const bool gate = op == UnaryOp::sigmoid || op == UnaryOp::tanh;
      EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(op);
      EXPECT_EQ(y[1], gate ? 1.0F : inf) << static_cast<int>(op);
      if (gate) {
        EXPECT_EQ(y[2], op == UnaryOp::tanh ? -1.0F : 0.0F);
      }
    }
  }
}

}  // namespace
}  // namespace ingot
