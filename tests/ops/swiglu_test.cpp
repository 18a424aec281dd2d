#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::checked_device;
using testing::max_error;
using testing::randn;

// check_op's gradients are those of the recorded way.
TEST(Swiglu, HoldsForEveryShape) {
  // Of three ops in a half type; gate's gradient has up as a factor, and those of weights add up over the
  // rows.
  const double rounding = 2e-2;
  for (const Shape& x : {Shape{1, 1}, Shape{5}, Shape{2, 3, 16}, Shape{1, 1, 64}, Shape{20, 24}}) {
    for (const bool bias : {false, true}) {
      const auto weight = [&x](std::int64_t rows) {
        const double scale = 1 / std::sqrt(static_cast<double>(x.back()));
        return testing::InputSpec{.shape = {rows, x.back()},
                                  .values = [scale](double v) { return v * scale; }};
      };
      std::vector<testing::InputSpec> inputs{{.shape = x, .values = {}}, weight(19), weight(19)};
      if (bias) inputs.insert(inputs.end(), 2, testing::InputSpec{.shape = {19}, .values = {}});
      check_op(
          {.name = to_string(x) + (bias ? " + bias" : ""),
           .op =
               [bias](std::span<const Tensor> in) {
                 return swiglu(in[0], {in[1], bias ? in[3] : Tensor{}}, {in[2], bias ? in[4] : Tensor{}});
               },
           .inputs = inputs,
           .half_tolerance = rounding * std::sqrt(static_cast<double>(x.drop_last().numel()))});
    }
  }
}

struct SwigluOperands {
  Tensor x;
  std::array<LinearWeights, 2> layers;

  SwigluOperands(const Shape& shape, DType dtype, DType weight, bool bias) : x(made(shape, 1, dtype)) {
    std::uint64_t seed = 2;
    for (LinearWeights& of : layers) {
      of.weight = made({21, shape.back()}, seed++, weight);
      if (bias) of.bias = made({21}, seed++, dtype);
    }
  }
  Tensor together() const { return swiglu(x, layers[0], layers[1]); }
  Tensor apart() const {
    const std::vector<Tensor> projected = linear(x, layers);
    return silu_mul(projected[0], projected[1]);
  }

 private:
  static Tensor made(const Shape& shape, std::uint64_t seed, DType dtype) {
    return to(to(randn(shape, seed), dtype), checked_device());
  }
};

struct SwigluTypes {
  DType x, weight;
};

TEST(Swiglu, HasTheBitsOfItsPartsWhereNothingIsRecorded) {
  const NoGrad no_grad;
  for (const auto& [x, weight] : {SwigluTypes{DType::f32, DType::f32},
                                  {DType::bf16, DType::bf16},
                                  {DType::f16, DType::f16},
                                  {DType::f32, DType::bf16},
                                  {DType::f32, DType::f16}}) {
    for (const Shape& shape : {Shape{64}, Shape{1, 1, 64}, Shape{3, 5, 40}, Shape{16, 33}, Shape{70, 64}}) {
      for (const bool bias : {false, true}) {
        const SwigluOperands o(shape, x, weight, bias);
        const Tensor y = o.together();
        EXPECT_EQ(y.shape(), shape.with(-1, 21));
        EXPECT_EQ(max_error(to(y, kCpu), to(o.apart(), kCpu)), 0.0) << to_string(shape) << name(weight);
      }
    }
  }
}

TEST(Swiglu, ReadsRowsThatLieApart) {
  const NoGrad no_grad;
  SwigluOperands o({7, 40}, DType::f32, DType::f32, true);
  o.x = narrow(o.x, 1, 8, 24);
  for (LinearWeights& of : o.layers) of.weight = narrow(of.weight, 1, 16, 24);
  EXPECT_EQ(max_error(to(o.together(), kCpu), to(o.apart(), kCpu)), 0.0);
}

// What is run again for its gradients must not take another kernel the first time.
TEST(Swiglu, TakesTheRecordedWayWhereItIsRecordedLater) {
  const SwigluOperands o({2, 64}, DType::f32, DType::f32, false);
  const auto fused = [&o] {
    const kernels::LaunchProfile profile;
    o.together();
    for (const kernels::LaunchProfile::Entry& entry : profile.entries())
      if (std::string_view(entry.kernel) == "gemm_silu_mul") return true;
    return false;
  };
  {
    const NoGrad no_grad;
    EXPECT_TRUE(fused());
  }
  const RecordedLater first_run;
  EXPECT_FALSE(fused());
}

TEST(Swiglu, NamesWhatMadeANumberThatIsNone) {
  const NoGrad no_grad;
  SwigluOperands o({2, 8}, DType::f32, DType::f32, false);
  o.x = to(testing::filled({2, 8}, INFINITY), checked_device());
  set_detect_anomaly(true);
  EXPECT_THROW(o.together(), NonFinite);
  set_detect_anomaly(false);
  EXPECT_NO_THROW(o.together());
}

TEST(Swiglu, RefusesShapesThatDoNotFit) {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape); };
  const LinearWeights gate{zeros({3, 4}), {}};
  EXPECT_THROW(swiglu(zeros({2, 5}), gate, gate), ShapeMismatch);
  EXPECT_THROW(swiglu(zeros({2, 4}), gate, {zeros({5, 4}), {}}), ShapeMismatch);
  EXPECT_THROW(swiglu(zeros({2, 4}), gate, {zeros({3, 5}), {}}), ShapeMismatch);
  EXPECT_THROW(swiglu(zeros({2, 4}), gate, {zeros({3, 4}), zeros({4})}), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
