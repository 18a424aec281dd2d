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

TEST(RmsNorm, AddsAnOffsetToTheWeight) {
  const auto op = [](std::span<const Tensor> in) { return rms_norm(in[0], in[1], 1e-5F, 1.0F); };
  for (const Shape& shape : {Shape{3, 5}, Shape{7, 33}, Shape{4, 64}}) {
    check_op({.name = to_string(shape), .op = op, .inputs = {{shape}, {Shape{shape.back()}}}});
  }
}

TEST(RmsNorm, RefusesAWeightOfAnotherWidth) {
  EXPECT_THROW(rms_norm(testing::randn({2, 4}, 1), testing::randn({3}, 2)), ShapeMismatch);
}

TEST(LayerNorm, HoldsForEveryShapeWithAndWithoutWeightAndBias) {
  const auto both = [](std::span<const Tensor> in) { return layer_norm(in[0], in[1], in[2]); };
  const auto neither = [](std::span<const Tensor> in) { return layer_norm(in[0], {}, {}); };
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 16}, Shape{7, 33}, Shape{2, 131}}) {
    const Shape width{shape.back()};
    check_op({.name = to_string(shape), .op = both, .inputs = {{shape}, {width}, {width}}});
    check_op({.name = to_string(shape) + " plain", .op = neither, .inputs = {{shape}}});
  }
}

TEST(LayerNorm, StaysExactFarFromZero) {
  const auto far = [](double x) { return x + 1000.0; };
  check_op({.name = "mean 1000",
            .op = [](std::span<const Tensor> in) { return layer_norm(in[0], {}, {}); },
            .inputs = {{.shape = {3, 64}, .values = far}},
            .f32_tolerance = 1e-3,  // f32 knows 1000 to 6e-5, and the deviation is 1
            .half_tolerance = 0});
}

}  // namespace
}  // namespace ingot
