#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/kernels/rope.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/rope.h"
#include "ingot/ops/view.h"

// What the op never asks of rms_norm_rope: results within wider tensors, any choice of gradients, more thread
// groups than there are at once, no heads at all. Against the CPU's.
namespace ingot {
namespace {

using test::kDevice;
using testing::max_error;
using testing::randn;

struct HeadsCase {
  Shape shape;  // [B, S, H, D]
  DType dtype = DType::f32;
  std::int64_t gap = 0;  // elements between heads
  bool dx = true, dweight = true, accumulate_dx = false, accumulate_dweight = false;
  std::int64_t parts = 0;  // of the sum for the weight; 0: as many as the device has

  std::string describe() const {
    return to_string(shape) + " " + std::string(name(dtype)) + ", gap " + std::to_string(gap) +
           (dx ? "" : ", without dx") + (dweight ? "" : ", without dweight") +
           (accumulate_dx ? ", dx +=" : "") + (accumulate_dweight ? ", dweight +=" : "");
  }
};

class HeadsOperands {
 public:
  HeadsOperands(const HeadsCase& c, Device device) : case_(c), device_(device) {
    const RopeTable table = rope_table(rope_frequencies(c.shape[3] / 2 * 2, 10000.0), 64);
    cos_ = to(table.cos, device);
    sin_ = to(table.sin, device);
  }
  kernels::RopeAngles angles(std::int64_t offset = 4) const {
    return {.cos = cos_.view(), .sin = sin_.view(), .offset = offset, .rotated_heads = case_.shape[2]};
  }
  /// With the gaps, which nobody may write to.
  Tensor wide(std::uint64_t seed) const {
    return to(randn(case_.shape.with(3, case_.shape[3] + case_.gap), seed, case_.dtype), device_);
  }
  Tensor heads(const Tensor& wide) const { return narrow(wide, 3, case_.gap, case_.shape[3]); }
  Tensor weight(std::uint64_t seed) const { return to(randn({case_.shape[3]}, seed, case_.dtype), device_); }

 private:
  HeadsCase case_;
  Device device_;
  Tensor cos_, sin_;
};

void expect_all_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                     double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(max_error(found[i], expected[i]), tolerance) << "result " << i;
}

std::vector<Tensor> normed_and_rotated(const HeadsCase& c, Device device) {
  const HeadsOperands make(c, device);
  const Tensor x = make.wide(1), y = make.wide(2), weight = make.weight(3);
  const Tensor rstd = to(testing::filled(c.shape.drop_last(), 0.0F), device);
  launch(kernels::rms_norm_rope, current_stream(device),
         {.x = make.heads(x).view(),
          .weight = weight.view(),
          .y = make.heads(y).view(),
          .rstd = rstd.view(),
          .angles = make.angles(),
          .eps = 1e-5F});
  return {to(y, kCpu), to(rstd, kCpu)};
}

std::vector<Tensor> head_gradients(const HeadsCase& c, Device device) {
  const HeadsOperands make(c, device);
  const Tensor x = make.wide(1), dy = make.wide(2), weight = make.weight(3), dx = make.wide(4),
               dweight = make.weight(5);
  const Tensor rstd = to(testing::filled(c.shape.drop_last(), 0.9F), device);
  const std::int64_t parts = c.parts > 0 ? c.parts : kernels::scratch_parts(device);
  const Tensor partials = Tensor::empty({parts, c.shape[3]}, DType::f32, device);
  launch(kernels::rms_norm_rope_backward, current_stream(device),
         {.x = make.heads(x).view(),
          .weight = weight.view(),
          .rstd = rstd.view(),
          .dy = make.heads(dy).view(),
          .dx = c.dx ? make.heads(dx).view() : View{},
          .dweight = c.dweight ? dweight.view() : View{},
          .partials = c.dweight ? partials.view() : View{},
          .angles = make.angles(),
          .weight_offset = 1.0F,
          .accumulate_dx = c.accumulate_dx,
          .accumulate_dweight = c.accumulate_dweight});
  return {to(dx, kCpu), to(dweight, kCpu)};
}

void expect_the_same_gradients(const HeadsCase& c) {
  SCOPED_TRACE(c.describe());
  // Sums of some hundred terms, whose order differs.
  expect_all_near(head_gradients(c, kDevice), head_gradients(c, kCpu), c.dtype == DType::f32 ? 2e-5 : 2e-2);
}

const Shape kHeadShapes[] = {{2, 3, 5, 64}, {1, 7, 9, 128}, {3, 2, 2, 256}, {2, 2, 3, 30}, {1, 2, 3, 33}};

TEST(CudaNormRope, WritesToHeadsOfAnyStrides) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Shape& shape : kHeadShapes) {
      for (const std::int64_t gap : {8, 4, 1}) {
        const HeadsCase c{.shape = shape, .dtype = dtype, .gap = gap};
        SCOPED_TRACE(c.describe());
        expect_all_near(normed_and_rotated(c, kDevice), normed_and_rotated(c, kCpu),
                        dtype == DType::f32 ? 1e-5 : 1e-2);
      }
    }
  }
}

TEST(CudaNormRope, GradientsHoldForHeadsOfAnyStrides) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape : kHeadShapes)
      for (const std::int64_t gap : {8, 4, 1})
        expect_the_same_gradients(
            {.shape = shape, .dtype = dtype, .gap = gap, .accumulate_dx = gap == 4 || gap == 8});
}

TEST(CudaNormRope, EachGradientMayBeAbsentAndEachAddedTo) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : kHeadShapes) {
      for (const bool all : {false, true}) {  // the other one is added to as well
        expect_the_same_gradients(
            {.shape = shape, .dtype = dtype, .accumulate_dx = true, .accumulate_dweight = all});
        expect_the_same_gradients(
            {.shape = shape, .dtype = dtype, .accumulate_dx = all, .accumulate_dweight = true});
        expect_the_same_gradients({.shape = shape, .dtype = dtype, .dx = false, .accumulate_dx = all});
        expect_the_same_gradients({.shape = shape, .dtype = dtype, .dweight = false, .accumulate_dx = all});
      }
    }
  }
}

TEST(CudaNormRope, FewPartsSumTheHeadsOfManyTokens) {
  for (const std::int64_t size : {64, 256, 30})
    expect_the_same_gradients({.shape = {2, 37, 5, size}, .parts = 3});
}

TEST(CudaNormRope, OfNoHeadsTheGradientOfTheWeightIsZerosOrAsItWas) {
  for (const bool accumulate : {false, true})
    for (const std::int64_t size : {64, 30})
      expect_the_same_gradients({.shape = {0, 3, 2, size}, .accumulate_dweight = accumulate});
}

// In whole vectors and one by one; no token after the first has a position in the table.
TEST(CudaNormRope, APositionOutsideOfTheTableGivesNaN) {
  for (const std::int64_t size : {64, 6}) {
    const HeadsCase c{.shape = {1, 3, 2, size}};
    const HeadsOperands make(c, kDevice);
    const Tensor x = make.wide(1), y = Tensor::empty_like(x), weight = make.weight(2);
    launch(kernels::rms_norm_rope, current_stream(kDevice),
           {.x = x.view(),
            .weight = weight.view(),
            .y = y.view(),
            .rstd = {},
            .angles = make.angles(63),
            .eps = 1e-5F});
    const std::vector<float> found = to(y, kCpu).to_vector<float>();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isnan(found[i]), i >= found.size() / 3) << size << " " << i;
  }
}

}  // namespace
}  // namespace ingot
