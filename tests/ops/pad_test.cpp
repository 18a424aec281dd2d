#include "ingot/ops/pad.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;

TEST(Pad, HoldsForEveryModeAxisAndSize) {
  for (const PadMode mode : {PadMode::zeros, PadMode::circular, PadMode::edge}) {
    for (const auto& [axis, before, after] : {std::tuple{0, 1, 0}, {1, 2, 3}, {-1, 0, 5}, {2, 0, 0}}) {
      check_op({.name = "mode " + std::to_string(static_cast<int>(mode)) + " axis " + std::to_string(axis),
                .op = [mode, axis, before,
                       after](std::span<const Tensor> in) { return pad(in[0], axis, before, after, mode); },
                .inputs = {{{2, 3, 5}}}});
    }
  }
}

TEST(Pad, PutsEachElementWhereItsModeSays) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  const std::vector<float> zeros{0, 0, 1, 2, 3, 0}, circular{2, 3, 1, 2, 3, 1}, edge{1, 1, 1, 2, 3, 3};
  EXPECT_EQ(pad(x, 0, 2, 1).to_vector<float>(), zeros);
  EXPECT_EQ(pad(x, 0, 2, 1, PadMode::circular).to_vector<float>(), circular);
  EXPECT_EQ(pad(x, -1, 2, 1, PadMode::edge).to_vector<float>(), edge);
}

TEST(Pad, RefusesWhatCannotBeFilled) {
  const Tensor x = Tensor::zeros({2, 3}), none = Tensor::zeros({2, 0});
  EXPECT_THROW(pad(x, 2, 1, 1), DimensionMismatch);
  EXPECT_THROW(pad(x, 0, -1, 1), DimensionMismatch);
  EXPECT_THROW(pad(x, 1, 4, 0, PadMode::circular), DimensionMismatch);
  EXPECT_THROW(pad(none, 1, 1, 0, PadMode::edge), DimensionMismatch);
  EXPECT_EQ(pad(none, 1, 1, 0).shape(), Shape({2, 1}));
}

}  // namespace
}  // namespace ingot
