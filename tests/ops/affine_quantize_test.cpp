#include "ingot/ops/affine_quantize.h"

#include <cmath>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/kernel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

using testing::check_op;
using testing::max_error;
using testing::randn;

// There and back, on every device: what a code stands for is not further than half a scale from the number.
TEST(AffineQuantize, HoldsForOneScaleAndForOneOfEachPosition) {
  for (const DType codes : {DType::u8, DType::i8}) {
    for (const int axis : {-1, 0, 1, 2}) {  // -1: one scale
      const Shape shape{3, 5, 37};
      const std::int64_t channels = axis < 0 ? 1 : shape[axis];
      std::vector<float> scales, zeros;
      for (std::int64_t i = 0; i < channels; ++i) {
        scales.push_back(0.01F + 0.003F * static_cast<float>(i % 5));
        zeros.push_back(static_cast<float>(i % 7) - (codes == DType::i8 ? 3 : 0));
      }
      const Tensor scale = Tensor::from(scales, {channels}),
                   zero = to(Tensor::from(zeros, {channels}), codes);
      for (const bool with_zero : {true, false}) {
        check_op({.name = std::string(name(codes)) + " along " + std::to_string(axis),
                  .op =
                      [&](std::span<const Tensor> in) {
                        const Tensor s = testing::beside(scale, in);
                        const Tensor z = with_zero ? testing::beside(zero, in) : Tensor{};
                        const Tensor q = affine_quantize(in[0], s, z, codes, axis);
                        return affine_dequantize(q, s, z, in[0].dtype(), axis);
                      },
                  .inputs = {{.shape = shape, .differentiable = false}}});
      }
    }
  }
}

TEST(AffineQuantize, RoundsTiesToEvenAndLimits) {
  const Tensor x =
      Tensor::from(std::vector<float>{-1e9F, -1.5F, -0.5F, 0.5F, 1.5F, 2.5F, 126.5F, 300, INFINITY}, {9});
  const Tensor one = Tensor::from(std::vector<float>{1}, {1});
  const auto codes = [&](const Tensor& zero, DType dtype) {
    return to(affine_quantize(x, one, zero, dtype), DType::f32).to_vector<float>();
  };
  EXPECT_EQ(codes({}, DType::i8), (std::vector<float>{-128, -2, 0, 0, 2, 2, 126, 127, 127}));
  const Tensor ten = to(Tensor::from(std::vector<float>{10}, {1}), DType::u8);
  EXPECT_EQ(codes(ten, DType::u8), (std::vector<float>{0, 8, 10, 10, 12, 12, 136, 255, 255}));
}

TEST(AffineQuantize, RefusesWhatDoesNotFit) {
  const Tensor x = randn({2, 3}, 1), scale = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  EXPECT_THROW(affine_quantize(x, scale, {}, DType::u8, 0), ShapeMismatch);
  EXPECT_THROW(affine_quantize(x, scale, {}, DType::i32, 1), KernelError);
  EXPECT_THROW(affine_quantize(x, scale, to(scale, DType::i8), DType::u8, 1), KernelError);
  EXPECT_THROW(affine_dequantize(x, scale, {}, DType::f32, 1), KernelError);
}

// In one pass the bits of the three.
TEST(AffineQuantize, SumsOfCodesAreThoseOfTheirValues) {
  const auto codes_of = [](DType dtype, std::uint64_t seed) {
    return to(clamp(scale(randn({3, 37}, seed), 60, dtype == DType::u8 ? 128 : 0),
                    dtype == DType::u8 ? 0 : -128, dtype == DType::u8 ? 255 : 127),
              dtype);
  };
  const auto one = [](float x, DType dtype) { return to(Tensor::from(std::vector<float>{x}, {1}), dtype); };
  const auto zero_of = [](DType dtype) { return dtype == DType::u8 ? 113 : -7; };
  for (const DType first : {DType::u8, DType::i8}) {
    for (const DType second : {DType::u8, DType::i8}) {
      for (const DType sum : {DType::u8, DType::i8}) {
        const Tensor a = codes_of(first, 1), b = codes_of(second, 2);
        const auto value = [&](const Tensor& codes, float step) {
          return affine_dequantize(codes, one(step, DType::f32),
                                   one(static_cast<float>(zero_of(codes.dtype())), codes.dtype()),
                                   DType::f32);
        };
        const Tensor expected =
            affine_quantize(add(value(a, 0.03F), value(b, 0.011F)), one(0.025F, DType::f32),
                            one(static_cast<float>(zero_of(sum)), sum), sum);
        const auto added = [&] {
          return affine_add(a, {0.03F, zero_of(first)}, b, {0.011F, zero_of(second)}, {0.025F, zero_of(sum)},
                            sum);
        };
        EXPECT_EQ(max_error(added(), expected), 0) << name(first) << name(second) << name(sum);
        const kernels::ForceKind reference(kernels::ImplKind::reference);
        EXPECT_EQ(max_error(added(), expected), 0) << name(first) << name(second) << name(sum);
      }
    }
  }
  EXPECT_THROW(affine_add(codes_of(DType::u8, 1), {}, Tensor::zeros({3, 36}, DType::u8), {}, {}, DType::u8),
               ShapeMismatch);
  EXPECT_THROW(affine_add(codes_of(DType::u8, 1), {}, randn({3, 37}, 1), {}, {}, DType::u8), KernelError);
}

}  // namespace
}  // namespace ingot
