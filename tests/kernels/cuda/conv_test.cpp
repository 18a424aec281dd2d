#include "ingot/ops/conv.h"

#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/conv.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

// Convolutions on tensor cores where several tiles, steps and parts take part, against the reference in f64.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;
using test::largest;

struct ConvResults {
  Tensor y, dx, dweight, dbias;
};

// `inputs`: x, filter, bias and what y is weighted with. Two backward passes, so that gradients are added up.
ConvResults run_conv(const std::vector<Tensor>& inputs, const Conv2dOptions& options) {
  std::vector<Tensor> in;
  for (const Tensor& input : inputs) {
    in.push_back(input.detach());
    in.back().set_requires_grad(true);
  }
  Tensor y;
  for (int pass = 0; pass < 2; ++pass) {
    y = conv2d(in[0], in[1], in[2], options);
    backward(sum(y * in[3].detach()));
  }
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

// Both sides get the same rounded inputs. `implementation`: what has to run.
void expect_conv(const Shape& x, const Shape& filter, Conv2dOptions options, DType dtype,
                 const char* implementation) {
  options.layout = ChannelLayout::last;
  std::vector<Tensor> exact, rounded;
  const auto add = [&](const Shape& shape) {
    const auto seed = static_cast<std::uint64_t>(exact.size() + 1);
    rounded.push_back(to(to(randn(shape, seed, DType::f64), dtype), kDevice));
    exact.push_back(to(to(rounded.back(), kCpu), DType::f64));
  };
  for (const Shape& shape : {x, filter, Shape{filter[0]}}) add(shape);
  add(conv2d(exact[0], exact[1], exact[2], options).shape());
  const ConvResults expected = run_conv(exact, options);
  const auto compare = [&](const ConvResults& actual, const char* who) {
    // Gradients are rounded twice, once for each pass.
    const double bound = dtype == DType::f32 ? 1e-5 : dtype == DType::bf16 ? 0x1p-7 : 0x1p-10;
    for (const auto& [what, a, e] : {std::tuple{"y", actual.y, expected.y},
                                     {"dx", actual.dx, expected.dx},
                                     {"dweight", actual.dweight, expected.dweight},
                                     {"dbias", actual.dbias, expected.dbias}})
      EXPECT_LE(max_error(a, e), bound * largest(e))
          << what << ' ' << name(dtype) << ' ' << to_string(filter) << who;
  };
  if (test::library_comes_first(kernels::conv)) compare(run_conv(rounded, options), ", as a GPU runs it");
  const kernels::LaunchProfile profile;
  const ConvResults own = [&] {
    const kernels::ForceKind kind(kernels::ImplKind::cuda);
    return run_conv(rounded, options);
  }();
  compare(own, "");
  int convolutions = 0;
  for (const kernels::LaunchProfile::Entry& entry : profile.entries()) {
    if (!std::string_view(entry.kernel).starts_with("conv")) continue;
    EXPECT_STREQ(entry.implementation, implementation) << entry.kernel;
    ++convolutions;
  }
  EXPECT_GE(convolutions, 3);
}

TEST(CudaConv, TensorCoresEqualTheReferenceOverSeveralTiles) {
  const Shape x{2, 9, 11, 24}, filter{136, 24, 3, 3};  // 198 positions, 216 taps of channels
  for (const DType dtype : {DType::bf16, DType::f16})
    expect_conv(x, filter, {.padding = {1, 1}}, dtype, "tensor_cores");
}

TEST(CudaConv, TensorCoresWalkEveryGeometry) {
  const Shape x{2, 9, 7, 8};
  expect_conv(x, {16, 8, 1, 1}, {}, DType::bf16, "tensor_cores");
  expect_conv(x, {16, 8, 1, 1}, {.stride = {2, 3}}, DType::bf16, "tensor_cores");
  expect_conv(x, {8, 8, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}, DType::bf16, "tensor_cores");
  expect_conv(x, {8, 8, 2, 3}, {.stride = {1, 2}, .padding = {0, 2}, .dilation = {3, 1}}, DType::bf16,
              "tensor_cores");
  expect_conv(x, {8, 8, 3, 3}, {.padding = {4, 3}}, DType::bf16, "tensor_cores");  // beyond the filter
}

// A step of the depth is 32 channels of one tap or several taps, and goes over several lines of an image.
TEST(CudaConv, TensorCoresStepOverTapsAndLines) {
  expect_conv({3, 5, 3, 72}, {8, 72, 3, 2}, {.padding = {1, 1}}, DType::bf16, "tensor_cores");
  expect_conv({70, 1, 1, 40}, {16, 40, 1, 1}, {}, DType::bf16, "tensor_cores");
  expect_conv({9, 2, 3, 8}, {8, 8, 2, 5}, {.stride = {1, 3}, .padding = {1, 2}}, DType::bf16, "tensor_cores");
  expect_conv({2, 1, 150, 16}, {24, 16, 1, 7}, {.stride = {1, 4}, .padding = {0, 3}}, DType::f16,
              "tensor_cores");
}

TEST(CudaConv, TensorCoresAddThePartsOfAWeightsGradient) {  // 2500 positions in two
  expect_conv({1, 50, 50, 8}, {8, 8, 1, 3}, {.padding = {0, 1}}, DType::bf16, "tensor_cores");
}

TEST(CudaConv, WhatCannotBeCopiedInVectorsTakesTiles) {
  expect_conv({2, 9, 7, 8}, {12, 8, 3, 3}, {.padding = {1, 1}}, DType::bf16, "tiled");
  expect_conv({2, 9, 7, 6}, {8, 6, 3, 3}, {.padding = {1, 1}}, DType::bf16, "tiled");
  expect_conv({2, 9, 7, 16}, {16, 8, 3, 3}, {.padding = {1, 1}, .groups = 2}, DType::bf16, "tiled");
  expect_conv({2, 9, 7, 8}, {8, 8, 3, 3}, {.padding = {1, 1}}, DType::f32, "tiled");
}

}  // namespace
}  // namespace ingot
