#include "ingot/ops/group_norm.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::randn;

TEST(GroupNorm, HoldsForEveryShapeLayoutAndActivation) {
  struct Case {
    Shape shape;  // channels first
    std::int64_t groups;
  };
  for (const Case& t : {Case{{1, 4, 1}, 1}, Case{{2, 6, 5}, 3}, Case{{3, 32, 7}, 8}, Case{{2, 5, 19}, 5},
                        Case{{4, 18, 3}, 2}, Case{{2, 4, 3, 5}, 2}, Case{{5, 8}, 2}, Case{{1, 32, 34}, 4}}) {
    for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
      for (const NormActivation activation : {NormActivation::none, NormActivation::mish}) {
        Shape x = t.shape;
        const std::int64_t channels = x[1];
        if (layout == ChannelLayout::last) x = x.erase(1).insert(x.rank() - 1, channels);
        const GroupNormOptions options{t.groups, 1e-5F, layout, activation};
        check_op({.name = to_string(x) + (activation == NormActivation::mish ? " mish" : ""),
                  .op = [&](std::span<const Tensor> in) { return group_norm(in[0], in[1], in[2], options); },
                  .inputs = {{x}, {Shape{channels}}, {Shape{channels}}},
                  .half_tolerance = 4e-2});  // sums of rounded gradients over up to 38 positions
      }
    }
  }
}

// More than a GPU's thread keeps of a sample in the smaller of its two kernels.
TEST(GroupNorm, HoldsForManyPositionsOfManyChannels) {
  const GroupNormOptions options{32, 1e-5F, ChannelLayout::last, NormActivation::mish};
  check_op({.name = "23 places",
            .op = [&](std::span<const Tensor> in) { return group_norm(in[0], in[1], in[2], options); },
            .inputs = {{Shape{1, 23, 256}}, {Shape{256}}, {Shape{256}}},
            .half_tolerance = 4e-2});
}

// Far from zero the derivative of mish must neither overflow nor vanish too early.
TEST(GroupNorm, MishHoldsFarFromZero) {
  const GroupNormOptions options{.groups = 1, .activation = NormActivation::mish};
  check_op({.name = "large scale",
            .op = [&](std::span<const Tensor> in) { return group_norm(in[0], in[1], in[2], options); },
            .inputs = {{Shape{2, 3, 16}},
                       {.shape = Shape{3}, .values = [](double v) { return 30 * v; }},
                       {Shape{3}}},
            .f32_tolerance = 2e-4,  // inputs of the activation reach 100
            .half_tolerance = 0});
}

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 6, 4}, 1), w = randn({6}, 2);
  EXPECT_THROW(group_norm(x, w, w, {.groups = 4}), InvalidConfig);
  EXPECT_THROW(group_norm(x, w, w, {.groups = 0}), InvalidConfig);
  EXPECT_THROW(group_norm(x, w, randn({5}, 2), {.groups = 2}), ShapeMismatch);
  EXPECT_THROW(group_norm(x, w, w, {.groups = 2, .layout = ChannelLayout::last}), ShapeMismatch);
  EXPECT_THROW(group_norm(w, w, w), DimensionMismatch);
}

}  // namespace
}  // namespace ingot
