#include "ingot/ops/norm.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::InputSpec;

TEST(RmsNorm, HoldsForEveryShape) {
  const auto op = [](std::span<const Tensor> in) { return rms_norm(in[0], in[1], 1e-5F); };
  for (const Shape& shape :
       {Shape{1, 1}, Shape{3, 5}, Shape{2, 3, 16}, Shape{7, 33}, Shape{4, 64}, Shape{2, 131}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}, {Shape{shape.back()}}}});
  }
}

TEST(RmsNorm, RefusesAWeightOfAnotherWidth) {
  EXPECT_THROW(rms_norm(testing::randn({2, 4}, 1), testing::randn({3}, 2)), ShapeMismatch);
}

}  // namespace
}  // namespace ingot
