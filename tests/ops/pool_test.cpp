#include "ingot/ops/pool.h"

#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

TEST(Pool, HoldsForEveryWindowAndLayout) {
  for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
    const bool last = layout == ChannelLayout::last;
    const Shape signal = last ? Shape{2, 9, 3} : Shape{2, 3, 9};
    const Shape image = last ? Shape{2, 5, 6, 3} : Shape{2, 3, 5, 6};
    const auto check = [](const char* name, const Shape& x, auto op) {
      check_op({.name = name + to_string(x),
                .op = [&](std::span<const Tensor> in) { return op(in[0]); },
                .inputs = {{x}}});
    };
    for (const Pool1dOptions& o :
         {Pool1dOptions{.window = 1}, Pool1dOptions{.window = 2},
          Pool1dOptions{.window = 3, .stride = 1, .padding = 1},
          Pool1dOptions{.window = 3, .stride = 2, .padding = 1, .count_padding = false},
          Pool1dOptions{.window = 2, .stride = 1, .dilation = 3},
          Pool1dOptions{.window = 3, .stride = 1, .padding = 2, .padding_end = 0},
          Pool1dOptions{.window = 2, .stride = 3, .padding_end = 1, .ceil = true},
          Pool1dOptions{.window = 4, .stride = 2, .padding = 1, .count_padding = false, .ceil = true}}) {
      Pool1dOptions options = o;
      options.layout = layout;
      check("max ", signal, [&](const Tensor& x) { return max_pool1d(x, options); });
      check("average ", signal, [&](const Tensor& x) { return avg_pool1d(x, options); });
    }
    const Pool2dOptions options{.window = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .layout = layout};
    check("max ", image, [&](const Tensor& x) { return max_pool2d(x, options); });
    check("average ", image, [&](const Tensor& x) { return avg_pool2d(x, options); });
    check("adaptive ", signal, [&](const Tensor& x) { return adaptive_avg_pool1d(x, 4, layout); });
    check("adaptive ", image, [&](const Tensor& x) { return adaptive_avg_pool2d(x, {7, 2}, layout); });
    check("global ", signal, [&](const Tensor& x) { return global_avg_pool(x, layout); });
    check("global ", image, [&](const Tensor& x) { return global_avg_pool(x, layout); });
  }
}

TEST(Pool, GivesTheValuesOfPyTorch) {
  const Tensor x = Tensor::from(std::vector<float>{1, 5, 2, 4, 3}, {1, 1, 5});
  EXPECT_EQ(max_pool1d(x, {.window = 2}).to_vector<float>(), (std::vector<float>{5, 4}));
  EXPECT_EQ(avg_pool1d(x, {.window = 2, .padding = 1}).to_vector<float>(),
            (std::vector<float>{0.5F, 3.5F, 3.5F}));
  EXPECT_EQ(avg_pool1d(x, {.window = 2, .padding = 1, .count_padding = false}).to_vector<float>(),
            (std::vector<float>{1, 3.5F, 3.5F}));
  EXPECT_EQ(adaptive_avg_pool1d(x, 2).to_vector<float>(), (std::vector<float>{8.0F / 3, 3}));
  EXPECT_EQ(global_avg_pool(x).to_vector<float>(), (std::vector<float>{3}));
}

// Windows of a plane are folded whole vectors at a time, apart by every stride. Without a gradient to come
// the indices of the largest are not kept, which takes another way.
TEST(Pool, HoldsForRowsOfSeveralVectors) {
  for (const std::int64_t stride : {1, 2, 3, 5}) {
    for (const std::int64_t dilation : {1, 2, 3}) {
      const Pool2dOptions options{.window = {2, 3},
                                  .stride = {1, stride},
                                  .padding = {1, 2},
                                  .dilation = {1, dilation},
                                  .count_padding = false,
                                  .padding_end = {0, 1},
                                  .ceil = true};
      const std::string name =
          " of stride " + std::to_string(stride) + ", dilation " + std::to_string(dilation);
      check_op({.name = "average" + name,
                .op = [&](std::span<const Tensor> in) { return avg_pool2d(in[0], options); },
                .inputs = {{{1, 2, 3, 77}}}});
      const Tensor x = randn({2, 3, 5, 77}, 7);
      Tensor recorded = randn({2, 3, 5, 77}, 7);
      recorded.set_requires_grad(true);
      EXPECT_EQ(max_pool2d(x, options).to_vector<float>(),
                max_pool2d(recorded, options).detach().to_vector<float>())
          << name;
    }
  }
}

TEST(Pool, CountsNothingBehindThePadding) {
  const Tensor x = Tensor::from(std::vector<float>{1, 5, 2, 4, 3}, {1, 1, 5});
  EXPECT_EQ(avg_pool1d(x, {.window = 2, .ceil = true}).to_vector<float>(), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(avg_pool1d(x, {.window = 3, .padding = 1, .padding_end = 0, .ceil = true}).to_vector<float>(),
            (std::vector<float>{2, 3}));
  EXPECT_EQ(max_pool1d(x, {.window = 2, .ceil = true}).to_vector<float>(), (std::vector<float>{5, 4, 3}));
  // A window would begin in the padding behind the input: it is left out.
  EXPECT_EQ(max_pool1d(x, {.window = 2, .stride = 5, .padding = 0, .padding_end = 1, .ceil = true}).dim(2),
            1);
}

TEST(Pool, MaxKeepsNaN) {
  const Tensor x = Tensor::from(std::vector<float>{1, NAN, 2, 3}, {1, 1, 4});
  const std::vector<float> y = max_pool1d(x, {.window = 2}).to_vector<float>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 3);
  const Tensor pair = Tensor::from(std::vector<float>{NAN, 1, 2, NAN}, {1, 1, 2, 2});
  EXPECT_TRUE(std::isnan(max_pool2d(pair, {.window = {2, 1}}).to_vector<float>()[1]));
  EXPECT_TRUE(std::isnan(max_pool2d(pair, {.window = {2, 1}}).to_vector<float>()[0]));
}

TEST(Pool, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 3, 5}, 1);
  EXPECT_THROW(max_pool1d(x, {.window = 6}), DimensionMismatch);
  EXPECT_THROW(max_pool1d(x, {.window = 0}), InvalidConfig);
  EXPECT_THROW(avg_pool1d(x, {.window = 2, .padding = 2}), InvalidConfig);
  EXPECT_THROW(max_pool2d(x, {}), DimensionMismatch);
  EXPECT_THROW(adaptive_avg_pool1d(x, 0), DimensionMismatch);
  EXPECT_THROW(global_avg_pool(randn({2, 3}, 1)), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
