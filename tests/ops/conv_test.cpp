#include "ingot/ops/conv.h"

#include <algorithm>
#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/kernel.h"
#include "ingot/kernels/launch_profile.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

// fp16 and bf16 round each operand, and the incoming gradient, by up to 2^-9; such errors of `terms`
// products of normal numbers add up like a random walk, and the worst of some thousand sums lies four
// deviations out.
double half_tolerance_of_sum(std::int64_t terms) { return 4 * std::sqrt(double(terms)) / 512; }

struct Case1d {
  std::int64_t n, c, w, o, k;
  Conv1dOptions options;
};

void check_conv1d(const Case1d& t) {
  const bool last = t.options.layout == ChannelLayout::last;
  const Shape x = last ? Shape{t.n, t.w, t.c} : Shape{t.n, t.c, t.w};
  const Shape w{t.o, t.c / t.options.groups, t.k};
  check_op({.name = to_string(x) + " * " + to_string(w),
            .op = [&](std::span<const Tensor> in) { return conv1d(in[0], in[1], in[2], t.options); },
            .inputs = {{x}, {w}, {Shape{t.o}}},
            .half_tolerance = half_tolerance_of_sum(std::max({t.c * t.k, t.o * t.k, t.n * t.w}))});
}

TEST(Conv1d, HoldsForEveryShapeAndLayout) {
  for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
    check_conv1d({1, 1, 1, 1, 1, {.layout = layout}});
    check_conv1d({2, 3, 7, 5, 3, {.padding = 1, .layout = layout}});
    check_conv1d({3, 4, 9, 6, 3, {.stride = 2, .padding = 1, .layout = layout}});
    check_conv1d({1, 4, 11, 4, 3, {.padding = 2, .dilation = 2, .groups = 2, .layout = layout}});
    check_conv1d({5, 2, 14, 33, 2, {.layout = layout}});
    check_conv1d({2, 5, 6, 3, 4, {.padding = 3, .layout = layout}});
    check_conv1d({2, 2, 3, 3, 2, {.padding = 4, .layout = layout}});  // padding beyond the kernel
  }
}

TEST(Conv1d, AddsIntoGradientsWithoutABias) {
  check_op({.name = "no bias",
            .op =
                [](std::span<const Tensor> in) {
                  return conv1d(in[0], in[1], {}, {.padding = 1, .layout = ChannelLayout::last});
                },
            .inputs = {{Shape{9, 13, 8}}, {Shape{13, 8, 3}}},
            .half_tolerance = half_tolerance_of_sum(9 * 13)});
}

TEST(ConvTranspose, HoldsForEveryShapeAndLayout) {
  for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
    const bool last = layout == ChannelLayout::last;
    const auto check = [&](const Shape& x, const Shape& w, std::int64_t outputs, const auto& op) {
      check_op({.name = "transposed " + to_string(x) + " * " + to_string(w),
                .op = op,
                .inputs = {{x}, {w}, {Shape{outputs}}},
                .half_tolerance = half_tolerance_of_sum(2 * 9 * 8)});
    };
    const ConvTranspose1dOptions signal{
        .stride = 3, .padding = 1, .output_padding = 2, .dilation = 2, .layout = layout};
    check(last ? Shape{2, 5, 3} : Shape{2, 3, 5}, {3, 4, 3}, 4,
          [&](std::span<const Tensor> in) { return conv_transpose1d(in[0], in[1], in[2], signal); });
    const ConvTranspose2dOptions doubled{.stride = {2, 2}, .layout = layout};
    check(last ? Shape{1, 3, 4, 8} : Shape{1, 8, 3, 4}, {8, 3, 2, 2}, 3,
          [&](std::span<const Tensor> in) { return conv_transpose2d(in[0], in[1], in[2], doubled); });
    const ConvTranspose2dOptions grouped{
        .stride = {1, 2}, .padding = {1, 0}, .output_padding = {0, 1}, .groups = 2, .layout = layout};
    check(last ? Shape{2, 4, 3, 4} : Shape{2, 4, 4, 3}, {4, 3, 3, 2}, 6,
          [&](std::span<const Tensor> in) { return conv_transpose2d(in[0], in[1], in[2], grouped); });
  }
}

TEST(ConvTranspose, PutsACopyOfTheFilterAtEachPosition) {
  const Tensor x = Tensor::from(std::vector<float>{1, 10}, {1, 1, 2});
  const Tensor w = Tensor::from(std::vector<float>{1, 2, 3}, {1, 1, 3});
  EXPECT_EQ(conv_transpose1d(x, w, {}, {.stride = 2}).to_vector<float>(),
            (std::vector<float>{1, 2, 13, 20, 30}));
  EXPECT_EQ(conv_transpose1d(x, w, {}, {.stride = 2, .padding = 1, .output_padding = 1}).to_vector<float>(),
            (std::vector<float>{2, 13, 20, 30}));
}

TEST(ConvTranspose, RefusesWhatDoesNotFit) {
  const Tensor x = randn({1, 4, 5}, 1), w = randn({4, 2, 3}, 2);
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.output_padding = 1}), InvalidConfig);
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.groups = 3}), InvalidConfig);
  EXPECT_THROW(conv_transpose1d(x, randn({3, 2, 3}, 2)), ShapeMismatch);
  EXPECT_THROW(conv_transpose1d(x, w, randn({3}, 3)), ShapeMismatch);
  EXPECT_THROW(conv_transpose1d(x, w, {}, {.padding = 4}), DimensionMismatch);
  EXPECT_THROW(conv_transpose2d(x, w), DimensionMismatch);
}

// Sizes that fill whole tiles and panels, against the plain kernels (finite differences would take minutes).
TEST(Conv1d, FastKernelsEqualTheReferenceAtTheSizesOfANetwork) {
  const Tensor x = randn({6, 34, 48}, 1), w = randn({96, 48, 3}, 2), b = randn({96}, 3);
  const auto run = [&] { return conv1d(x, w, b, {.padding = 1, .layout = ChannelLayout::last}); };
  const Tensor fast = run();
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  EXPECT_LE(testing::max_error(fast, run()), 2e-5);
}

// Three taps, many channels and samples, which Winograd's algorithm takes: both gradients, added up over two
// passes; odd widths, every padding, channels beside whole panels.
TEST(Conv1d, MinimalFilteringEqualsTheReference) {
  const std::int64_t samples = 4 * num_threads() + 3;
  for (const auto& [width, c, o, padding] :
       {std::array<std::int64_t, 4>{34, 64, 64, 1}, {13, 70, 90, 1}, {7, 96, 64, 2}, {8, 65, 100, 0}}) {
    const Conv1dOptions options{.padding = padding, .layout = ChannelLayout::last};
    const Tensor dy = randn({samples, width + 2 * padding - 2, o}, 3);
    const auto run = [&, c = c, o = o, width = width] {
      Tensor x = randn({samples, width, c}, 1), w = randn({o, c, 3}, 2);
      x.set_requires_grad(true);
      w.set_requires_grad(true);
      for (int i = 0; i < 2; ++i) backward(conv1d(x, w, {}, options), {.grad = dy});
      return std::array{conv1d(x, w, randn({o}, 4), options).detach(), x.grad(), w.grad()};
    };
    const kernels::LaunchProfile profile;
    const auto fast = run();
    for (const char* kernel : {"conv", "conv_backward_data", "conv_backward_weight"}) {
      EXPECT_TRUE(std::ranges::any_of(profile.entries(), [&](const auto& e) {
        return e.kernel == std::string_view(kernel) && e.implementation == std::string_view("winograd");
      })) << kernel;
    }
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    const auto expected = run();
    for (std::size_t i = 0; i < fast.size(); ++i)
      EXPECT_LE(testing::max_error(fast[i], expected[i]), 1e-4) << width << " " << i;  // sums of up to 300
  }
}

TEST(Conv1d, PackedWeightsGiveTheSameBits) {
  for (const std::int64_t outputs : {1, 32, 45}) {
    for (const std::int64_t samples : {1, 2, 3, 9}) {
      const Tensor x = randn({samples, 34, 7}, 1), w = randn({outputs, 7, 3}, 2), b = randn({outputs}, 3);
      const Tensor plain = conv1d(x, w, b, {.padding = 1, .layout = ChannelLayout::last});
      const Tensor packed = conv1d_packed(x, pack_conv1d_weight(w), outputs, 1, b);
      EXPECT_EQ(plain.to_vector<float>(), packed.to_vector<float>());
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      EXPECT_LE(testing::max_error(conv1d_packed(x, pack_conv1d_weight(w), outputs, 1, b), plain), 1e-5);
    }
  }
}

TEST(Conv2d, HoldsForEveryShapeAndLayout) {
  for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
    const auto check = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, Shape filter,
                           Conv2dOptions options) {
      options.layout = layout;
      const Shape x = layout == ChannelLayout::last ? Shape{n, h, w, c} : Shape{n, c, h, w};
      check_op({.name = to_string(x) + " * " + to_string(filter),
                .op = [&](std::span<const Tensor> in) { return conv2d(in[0], in[1], in[2], options); },
                .inputs = {{x}, {filter}, {Shape{filter[0]}}},
                .half_tolerance = half_tolerance_of_sum(
                    std::max(n * h * w, std::max(c, filter[0]) * filter[2] * filter[3]))});
    };
    check(1, 1, 1, 1, {1, 1, 1, 1}, {});
    check(2, 3, 5, 4, {4, 3, 3, 3}, {.padding = {1, 1}});
    check(1, 2, 6, 7, {4, 1, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
    check(2, 2, 7, 5, {3, 2, 2, 3}, {.stride = {1, 2}, .padding = {0, 2}, .dilation = {3, 1}});
  }
}

TEST(Conv1d, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 4, 9}, 1);
  EXPECT_THROW(conv1d(x, randn({3, 5, 3}, 2)), ShapeMismatch);
  EXPECT_THROW(conv1d(x, randn({3, 4, 3}, 2), randn({4}, 3)), ShapeMismatch);
  EXPECT_THROW(conv1d(x, randn({3, 4, 10}, 2)), DimensionMismatch);
  EXPECT_THROW(conv1d(x, randn({3, 4}, 2)), DimensionMismatch);
  EXPECT_THROW(conv1d(x, randn({3, 4, 3}, 2), {}, {.stride = 0}), InvalidConfig);
  EXPECT_THROW(conv1d(x, randn({3, 2, 3}, 2), {}, {.groups = 3}), InvalidConfig);
  EXPECT_THROW(conv1d_packed(x, randn({1, 3, 32}, 2), 3, 0), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
