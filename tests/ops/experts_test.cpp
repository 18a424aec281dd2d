#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/grouped_linear.h"
#include "ingot/ops/topk.h"

namespace ingot {
namespace {

using testing::check_op;

Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(GroupedLinear, HoldsForGroupsOfEverySizeEmptyOnesIncluded) {
  for (const std::vector<std::int64_t>& offsets :
       {std::vector<std::int64_t>{0, 7}, {0, 0, 3, 7}, {0, 2, 2, 2, 7, 7}}) {
    const auto groups = static_cast<std::int64_t>(offsets.size()) - 1;
    check_op({.name = std::to_string(groups) + " groups",
              .op =
                  [&](std::span<const Tensor> in) {
                    return grouped_linear(in[0], in[1], testing::beside(numbers(offsets), in));
                  },
              .inputs = {{{7, 5}}, {{groups, 3, 5}}}});
  }
}

TEST(GroupedLinear, RefusesOffsetsThatDoNotCoverTheRows) {
  const Tensor x = testing::randn({4, 3}, 1), weight = testing::randn({2, 5, 3}, 2);
  EXPECT_THROW(grouped_linear(x, weight, numbers({0, 4})), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, weight, numbers({0, 3, 2})), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, weight, numbers({0, 5, 4})), DimensionMismatch);
  EXPECT_THROW(grouped_linear(x, testing::randn({2, 5, 4}, 3), numbers({0, 2, 4})), ShapeMismatch);
}

TEST(RouteExperts, SortsPairsByExpertInTheirOwnOrder) {
  const ExpertRouting routing = route_experts(Tensor::from<std::int64_t>({3, 0, 0, 3, 1, 3}, {3, 2}), 5);
  EXPECT_EQ(routing.offsets.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 2, 3, 3, 6, 6}));
  EXPECT_EQ(routing.tokens.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(routing.positions.to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 0, 1, 4, 2, 5}));
}

TEST(RouteExperts, RefusesExpertsThatAreNotThere) {
  const auto of = [](const std::vector<std::int64_t>& values) { return Tensor::from(values, {2, 2}); };
  EXPECT_THROW(route_experts(of({0, 1, 2, 3}), 3), DimensionMismatch);
  EXPECT_THROW(route_experts(of({0, 1, -1, 0}), 3), DimensionMismatch);
  EXPECT_THROW(route_experts(of({0, 1, 2, 0}), 0), DimensionMismatch);
  EXPECT_THROW(route_experts(numbers({0, 1, 2}), 3), DimensionMismatch);
  EXPECT_THROW(route_experts(Tensor::from<std::int32_t>({0, 1}, {1, 2}), 3), DimensionMismatch);
  EXPECT_THROW(route_experts(Tensor(), 3), Error);
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

TEST(TopK, FastKernelsTakeTheSamePositionsWhateverTheLengthAndType) {
  for (const std::int64_t n : {1, 5, 63, 64, 65, 200, 1000, 5003}) {
    std::vector<float> values(static_cast<std::size_t>(3 * n));
    for (std::size_t i = 0; i < values.size(); ++i) {  // many equals, NaN, infinities
      values[i] = static_cast<float>(i * 7919 % 97) - 48;
      if (i % 31 == 3) values[i] = NAN;
      if (i % 53 == 5) values[i] = -INFINITY;
      if (i % 211 == 7) values[i] = INFINITY;
    }
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor x = to(Tensor::from(values, {3, n}), dtype);
      for (const std::int64_t k :
           {std::int64_t{1}, std::min<std::int64_t>(n, 8), std::min<std::int64_t>(n, 200)}) {
        const auto fast = topk(x, k).indices.to_vector<std::int64_t>();
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        EXPECT_EQ(fast, topk(x, k).indices.to_vector<std::int64_t>()) << n << " " << k << " " << name(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace ingot
