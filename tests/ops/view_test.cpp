#include "ingot/ops/view.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(values, shape);
}

std::vector<float> values(const Tensor& x) { return contiguous(x).to_vector<float>(); }

TEST(View, EveryViewHasItsGradient) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> views[] = {
      {"reshape",
       [](const Tensor& x) {
         return reshape(x, {4, -1});
       }},
      {"flatten", [](const Tensor& x) { return flatten(x, 1); }},
      {"transpose", [](const Tensor& x) { return transpose(x, 0, 2); }},
      {"permute",
       [](const Tensor& x) {
         return permute(x, {2, 0, 1});
       }},
      {"reshape of a transposed",
       [](const Tensor& x) {
         return reshape(transpose(x, 0, 1), {12, 3});
       }},
      {"squeeze", [](const Tensor& x) { return squeeze(unsqueeze(x, 1), 1); }},
      {"broadcast",
       [](const Tensor& x) {
         return broadcast_to(unsqueeze(x, 1), {2, 3, 5, 4, 3});
       }},
      {"slice", [](const Tensor& x) { return slice(x, 1, 1, 3); }},
      {"slice with step", [](const Tensor& x) { return slice(x, -1, 0, kEnd, 2); }},
      {"slice from the end", [](const Tensor& x) { return slice(x, 1, -3, -1); }},
      {"empty slice", [](const Tensor& x) { return add(slice(x, 1, 2, 2), slice(x, 1, 4)); }},
      {"narrow", [](const Tensor& x) { return narrow(x, 2, 1, 2); }},
      {"select", [](const Tensor& x) { return select(x, 1, -1); }},
      {"overlapping slices", [](const Tensor& x) { return slice(x, 1, 0, 3) + slice(x, 1, 1, 4); }},
      {"split",
       [](const Tensor& x) {
         auto p = split(x, {1, 3}, 1);
         return concat(std::vector{p[1], p[0], p[1]}, 1);
       }},
      {"part of a split",
       [](const Tensor& x) {
         return split(x, {1, 1, 2}, 1)[1];
       }},
      {"chunk",
       [](const Tensor& x) {
         auto p = chunk(x, 2, 1);
         return p[0] * p[1];
       }},
      {"stack", [](const Tensor& x) {
         return stack(std::vector{x, x}, -1);
       }}};
  for (const auto& [name, view] : views) {
    check_op({.name = name,
              .op = [&](std::span<const Tensor> in) { return contiguous(view(in[0])); },
              .inputs = {{Shape{3, 4, 3}}}});
  }
}

TEST(View, ConcatOfSeveralSizesHasItsGradient) {
  for (const int axis : {0, 1, -1}) {
    Shape a{2, 3, 4}, b = a, c = a;
    b[axis] = 5;
    c[axis] = 1;
    check_op({.name = "axis " + std::to_string(axis),
              .op = [=](std::span<const Tensor> in) { return concat(in, axis); },
              .inputs = {{a}, {b}, {c}}});
  }
}

TEST(View, SharesMemoryWherePossible) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(reshape(x, {6, 4}).storage(), x.storage());
  EXPECT_EQ(flatten(slice(x, 1, 1)).numel(), 16);
  EXPECT_EQ(reshape(slice(x, 0, 1), {3, 2, 2}).storage(), x.storage());
  // The last axis of a slice can be split without a copy, its first two cannot be merged.
  EXPECT_EQ(reshape(slice(x, 1, 1), {2, 2, 2, 2}).storage(), x.storage());
  EXPECT_NE(reshape(slice(x, 1, 1), {4, 4}).storage(), x.storage()) << "rows 1, 2, 4, 5 have no one stride";
  EXPECT_EQ(values(reshape(slice(x, 2, 0, 2), {2, 6})),
            (std::vector<float>{0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21}));
  EXPECT_EQ(reshape(transpose(x, 0, 1), {3, 2, 2, 2}).storage(), x.storage());
}

TEST(View, HasTheRightElements) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(values(transpose(x, 0, 1)), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(slice(x, 1, 0, kEnd, 2)), (std::vector<float>{0, 2, 3, 5}));
  EXPECT_EQ(values(select(x, 0, -1)), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(values(stack(std::vector{x, x}, 1)), (std::vector<float>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(slice(x, 1, 5).shape(), Shape({2, 0}));
  EXPECT_EQ(broadcast_to(select(x, 1, 1), {2, 2}).shape(), Shape({2, 2}));
  EXPECT_EQ(values(permute(counted({1, 2, 2}), {2, 0, 1})), (std::vector<float>{0, 2, 1, 3}));
}

TEST(View, RefusesWhatIsNotThere) {
  const Tensor x = randn({2, 3}, 1);
  EXPECT_THROW(reshape(x, {4}), ShapeMismatch);
  EXPECT_THROW(reshape(x, {-1, -1}), DimensionMismatch);
  EXPECT_THROW(reshape(x, {4, -1}), ShapeMismatch);
  EXPECT_THROW(permute(x, {0, 0}), DimensionMismatch);
  EXPECT_THROW(squeeze(x, 0), DimensionMismatch);
  EXPECT_THROW(narrow(x, 1, 2, 2), DimensionMismatch);
  EXPECT_THROW(select(x, 1, 3), DimensionMismatch);
  EXPECT_THROW(slice(x, 2, 0), DimensionMismatch);
  EXPECT_THROW(slice(x, 0, 0, 1, 0), DimensionMismatch);
  EXPECT_THROW(split(x, {1, 1}, 1), ShapeMismatch);
  EXPECT_THROW(chunk(x, 2, 1), DimensionMismatch);
  EXPECT_THROW(concat(std::vector{x, randn({2, 3, 1}, 1)}), ShapeMismatch);
  EXPECT_THROW(concat({}), Error);
  EXPECT_THROW(broadcast_to(x, {3, 3}), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
