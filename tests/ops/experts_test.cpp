#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/ops/grouped_linear.h"
#include "ingot/ops/topk.h"

namespace ingot {
namespace {

using testing::check_op;

TEST(GroupedLinear, HoldsForGroupsOfEverySizeEmptyOnesIncluded) {
  for (const std::vector<std::int64_t>& offsets :
       {std::vector<std::int64_t>{0, 7}, {0, 0, 3, 7}, {0, 2, 2, 2, 7, 7}}) {
    const auto groups = static_cast<std::int64_t>(offsets.size()) - 1;
    check_op({.name = std::to_string(groups) + " groups",
              .op = [&](std::span<const Tensor> in) { return grouped_linear(in[0], in[1], offsets); },
              .inputs = {{{7, 5}}, {{groups, 3, 5}}}});
  }
}

TEST(GroupedLinear, RefusesOffsetsThatDoNotCoverTheRows) {
  const Tensor x = testing::randn({4, 3}, 1), weight = testing::randn({2, 5, 3}, 2);
  EXPECT_THROW(grouped_linear(x, weight, {0, 4}), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, weight, {0, 3, 2}), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, weight, {0, 5, 4}), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, testing::randn({2, 5, 4}, 3), {0, 2, 4}), ShapeMismatch);
}

TEST(TopK, GivesValuesWithGradients) {
  check_op({.name = "3 of 11",
            .op = [](std::span<const Tensor> in) { return topk(in[0], 3).values; },
            .inputs = {{{5, 11}}},
            .half_tolerance = 0});  // rounding may exchange neighbours
}

TEST(TopK, IsInOrderAndTakesTheFirstOfEquals) {
  const TopK top = topk(Tensor::from<float>({1, 5, 5, 2, 9, 9, 9, 9}, {2, 4}), 3);
  EXPECT_EQ(top.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(top.values.to_vector<float>(), (std::vector<float>{5, 5, 2, 9, 9, 9}));
  EXPECT_THROW(topk(testing::randn({2, 4}, 1), 5), DimensionMismatch);
  EXPECT_THROW(topk(testing::randn({2, 4}, 1), 0), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
