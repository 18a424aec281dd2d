#include "ingot/ops/blocked_conv.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/pad.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

TEST(BlockedConv, BlocksOfChannelsKeepAnImage) {
  for (const std::int64_t channels : {8, 16, 32, 3}) {
    const Tensor x = randn({2, channels, 3, 5}, 1), blocks = to_channel_blocks(x);
    EXPECT_EQ(blocks.dim(4), channel_block());
    EXPECT_EQ(max_error(from_channel_blocks(blocks, channels), x), 0);
  }
}

struct Geometry {
  std::int64_t channels, outputs, size, kernel;
  BlockedConvOptions options;
};

// conv2d of the plain image, by any implementation, also where oneDNN has no primitive for the blocks
// (padding that is wider than its tiles).
TEST(BlockedConv, IsConv2dWithWhatFollows) {
  const Geometry cases[] = {
      {16, 32, 9, 1, {}},
      {32, 16, 9, 3, {.padding = {1, 1}, .padding_end = {1, 1}, .relu = true}},
      {3, 32, 12, 7, {.stride = {2, 2}, .padding = {3, 3}, .padding_end = {3, 3}}},
      {3, 16, 9, 3, {.padding = {0, 1}, .padding_end = {0, 1}, .relu = true}},
      {16, 16, 10, 1, {.stride = {2, 2}, .relu = true}},
      {16, 16, 11, 3, {.padding = {2, 2}, .padding_end = {2, 2}, .dilation = {2, 2}}},
      {16, 16, 4, 21, {.padding = {20, 20}, .padding_end = {20, 20}, .relu = true}},
  };
  std::uint64_t seed = 1;
  for (const Geometry& g : cases) {
    const Tensor x = randn({2, g.channels, g.size, g.size}, ++seed),
                 weight = randn({g.outputs, g.channels, g.kernel, g.kernel}, ++seed),
                 bias = randn({g.outputs}, ++seed);
    const Tensor plain =
        conv2d(x, weight, bias,
               {.stride = g.options.stride, .padding = g.options.padding, .dilation = g.options.dilation});
    const Tensor more = randn(plain.shape(), ++seed);
    const Tensor packed = prepack_conv2d_weight(weight),
                 image = takes_plain_image(g.channels) ? x : to_channel_blocks(x);
    for (const bool with_residual : {false, true}) {
      const Tensor residual = with_residual ? to_channel_blocks(more) : Tensor{};
      const Tensor sum = with_residual ? add(plain, more) : plain,
                   expected = g.options.relu ? relu(sum) : sum;
      const auto error = [&] {
        const Tensor y = blocked_conv2d(image, packed, bias, residual, g.options);
        return max_error(from_channel_blocks(y, g.outputs), expected);
      };
      EXPECT_LT(error(), 2e-4) << "kernel " << g.kernel << " of " << g.channels;
      const kernels::ForceKind reference(kernels::ImplKind::reference);
      EXPECT_LT(error(), 2e-4) << "reference, kernel " << g.kernel << " of " << g.channels;
    }
  }
}

// Odd sizes, padding of one side, a residual that the result takes the memory of; more tiles than are
// computed at once.
TEST(BlockedConv, OfTransformedWeightsIsConv2d) {
  std::uint64_t seed = 1;
  for (const std::int64_t size : {1, 2, 5, 37}) {
    const Tensor x = randn({2, 64, size, size + 1}, ++seed), w = scale(randn({80, 64, 3, 3}, ++seed), 0.1F),
                 bias = randn({80}, ++seed), image = to_channel_blocks(x),
                 packed = prepack_winograd_weight(w);
    ASSERT_TRUE(takes_winograd(64, 80));
    for (const std::int64_t top : {0, 1}) {
      if (size + top < 2) continue;
      BlockedConvOptions options{.padding = {top, 1}, .padding_end = {1, 1}, .relu = top == 0};
      const Tensor padded = pad(pad(x, 2, top, 1), 3, 1, 1), plain = conv2d(padded, w, bias);
      const Tensor more = randn(plain.shape(), ++seed), sum = add(plain, more),
                   y = options.relu ? relu(sum) : sum;
      const auto error = [&] {
        const Tensor found = blocked_conv2d(image, packed, bias, to_channel_blocks(more), options);
        return max_error(from_channel_blocks(found, 80), y);
      };
      EXPECT_LT(error(), 1e-4) << size;
      if (size < 5) {
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        EXPECT_LT(error(), 1e-4) << "reference, " << size;
      }
      options.over_residual = true;
      EXPECT_LT(error(), 1e-4) << "in place, " << size;
    }
  }
}

Tensor random_codes(const Shape& shape, std::uint64_t seed, DType dtype) {
  return to(scale(randn(shape, seed), 40, dtype == DType::u8 ? 128 : 0), dtype);
}

// Bits of the reference, and what the convolution in f64 rounds to; codes at their limits, too.
TEST(BlockedConv, OfCodesIsExact) {
  struct Case {
    std::int64_t channels, outputs, size, kernel;
    DType x, weight, y;
    BlockedConvOptions conv;
    bool centred = false;  ///< the weights' zero point is 0, so that they are bytes
  };
  const Case cases[] = {
      {16, 16, 7, 1, DType::u8, DType::i8, DType::u8, {}, true},
      {48, 80, 14, 1, DType::i8, DType::i8, DType::i8, {}, true},
      {32, 48, 9, 3, DType::u8, DType::i8, DType::u8, {.stride = {2, 2}}, true},
      {32, 16, 11, 3, DType::u8, DType::i8, DType::u8, {.padding = {1, 1}, .padding_end = {1, 1}}, true},
      {3,
       16,
       20,
       7,
       DType::i8,
       DType::i8,
       DType::i8,
       {.stride = {2, 2}, .padding = {3, 3}, .padding_end = {3, 3}},
       true},
      {16, 16, 7, 1, DType::u8, DType::i8, DType::u8, {}},
      {48, 32, 14, 1, DType::i8, DType::i8, DType::i8, {}},
      {16, 48, 13, 3, DType::i8, DType::i8, DType::u8, {.padding = {1, 1}, .padding_end = {1, 1}}},
      {3,
       16,
       20,
       7,
       DType::u8,
       DType::u8,
       DType::i8,
       {.stride = {2, 2}, .padding = {3, 3}, .padding_end = {3, 3}}},
      {16,
       16,
       9,
       3,
       DType::u8,
       DType::i8,
       DType::u8,
       {.padding = {0, 2}, .padding_end = {2, 2}, .dilation = {2, 1}}},
  };
  std::uint64_t seed = 1;
  for (const Case& c : cases) {
    const Tensor x = random_codes({2, c.channels, c.size, c.size}, ++seed, c.x),
                 weight = random_codes({c.outputs, c.channels, c.kernel, c.kernel}, ++seed, c.weight),
                 zero = c.centred ? Tensor::zeros({c.outputs}, c.weight)
                                  : random_codes({c.outputs}, ++seed, c.weight),
                 bias = to(scale(randn({c.outputs}, ++seed), 1000), DType::i32),
                 factor = scale(abs(randn({c.outputs}, ++seed)), 0.01);
    const std::int32_t x_zero = c.x == DType::u8 ? 120 : -3, y_zero = c.y == DType::u8 ? 7 : -128;
    const Tensor wide = to(x, DType::f64) - x_zero,
                 centred = sub(to(weight, DType::f64), reshape(to(zero, DType::f64), {c.outputs, 1, 1, 1}));
    // More padding at the end is pixels that count as nothing.
    const BlockedConvOptions& o = c.conv;
    const std::int64_t more = o.padding_end[0] - o.padding[0];
    const Tensor taller =
        more > 0
            ? concat(std::vector<Tensor>{wide, Tensor::zeros({2, c.channels, more, c.size}, DType::f64)}, 2)
            : wide;
    const Tensor sums = conv2d(taller, centred, to(bias, DType::f64),
                               {.stride = o.stride, .padding = o.padding, .dilation = o.dilation});
    const Tensor scaled = to(mul(to(sums, DType::f32), reshape(factor, {c.outputs, 1, 1})), DType::f64);
    const bool is_signed = c.y == DType::i8;
    const Tensor expected = clamp(round(scaled) + y_zero, is_signed ? -128 : 0, is_signed ? 127 : 255);
    const auto convolved = [&] {
      const Tensor y =
          quantized_conv2d(to_channel_blocks(x), prepack_quantized_conv2d_weight(weight, zero), bias, factor,
                           {.conv = c.conv, .x_zero = x_zero, .y_zero = y_zero, .codes = c.y});
      return to(from_channel_blocks(y, c.outputs), DType::f64);
    };
    EXPECT_EQ(max_error(convolved(), expected), 0) << "kernel " << c.kernel << " of " << c.channels;
    const kernels::ForceKind reference(kernels::ImplKind::reference);
    EXPECT_EQ(max_error(convolved(), expected), 0)
        << "reference, kernel " << c.kernel << " of " << c.channels;
  }
}

TEST(BlockedConv, RefusesWhatDoesNotFit) {
  const Tensor packed = prepack_conv2d_weight(randn({16, 16, 3, 3}, 1)),
               x = to_channel_blocks(randn({1, 32, 5, 5}, 2));
  EXPECT_THROW(blocked_conv2d(x, packed, {}, {}, {}), DimensionMismatch);
  const Tensor fitting = to_channel_blocks(randn({1, 16, 5, 5}, 2));
  EXPECT_THROW(blocked_conv2d(fitting, packed, randn({8}, 3), {}, {}), ShapeMismatch);
  EXPECT_THROW(blocked_conv2d(fitting, packed, {}, fitting, {}), ShapeMismatch);
  EXPECT_THROW(blocked_conv2d(to_channel_blocks(randn({1, 16, 2, 2}, 2)), packed, {}, {}, {}),
               DimensionMismatch);
}

}  // namespace
}  // namespace ingot
