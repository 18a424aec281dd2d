#include "ingot/kernels/cuda/gemm/blas_gemm.h"

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/tensor.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// What a library would compute from a matmul in its words is what the contract says: a plain matmul over
// columns stands for the library.
namespace ingot::kernels::cuda {
namespace {

using ingot::testing::max_error;
using ingot::testing::randn;

float at(const ColumnMatrix& matrix, std::int64_t batch, std::int64_t row, std::int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  EXPECT_LT(row, matrix.rows);
  EXPECT_LT(column, matrix.columns);
  return static_cast<const float*>(matrix.data)[batch * matrix.batch_stride + column * matrix.leading + row];
}

float gelu_inner(float x) { return 0.7978845608F * (x + 0.044715F * x * x * x); }
float gelu_gradient(float x) {
  const float t = std::tanh(gelu_inner(x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}

void multiply(const BlasGemm& p) {
  if (p.outer > 1) {
    for (std::int64_t i = 0; i < p.outer; ++i) multiply(p.one(i));
    return;
  }
  ASSERT_FALSE(p.c.transposed);
  const std::int64_t depth = p.a.transposed ? p.a.rows : p.a.columns;
  ASSERT_EQ(p.b.transposed ? p.b.columns : p.b.rows, depth);
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    for (std::int64_t column = 0; column < p.c.columns; ++column) {
      for (std::int64_t row = 0; row < p.c.rows; ++row) {
        float sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) sum += at(p.a, batch, row, k) * at(p.b, batch, k, column);
        float* to = static_cast<float*>(p.c.data) + batch * p.c.batch_stride + column * p.c.leading + row;
        float value = p.alpha * sum;
        if (p.beta != 0) value += p.beta * *to;
        if (p.bias != nullptr) value += static_cast<const float*>(p.bias)[row];
        float* before = p.before == nullptr
                            ? nullptr
                            : static_cast<float*>(p.before) + (to - static_cast<const float*>(p.c.data));
        if (p.gelu == BlasGemm::Gelu::gradient) {
          *to = value * gelu_gradient(*before);
          continue;
        }
        if (before != nullptr) *before = value;
        *to = p.gelu == BlasGemm::Gelu::value ? 0.5F * value * (1 + std::tanh(gelu_inner(value))) : value;
      }
      if (p.b_sums == nullptr) continue;
      float sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += at(p.b, batch, k, column);
      static_cast<float*>(p.b_sums)[column] = sum;
    }
  }
}

/// [batch, rows, columns] that lies as it says, or with its last two axes the other way round.
Tensor matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed,
              std::uint64_t seed) {
  return transposed ? transpose(randn({batch, columns, rows}, seed), 1, 2)
                    : randn({batch, rows, columns}, seed);
}

void check_product(const GemmArgs& args, const Tensor& c) {
  const Tensor expected = clone(c);
  GemmArgs reference_args = args;
  reference_args.c = expected.view();
  reference_args.c.rank = args.c.rank;
  {
    const ForceKind reference(ImplKind::reference);
    launch(gemm, {}, reference_args);
  }
  const auto product = blas_gemm(args);
  ASSERT_TRUE(product);
  multiply(*product);
  EXPECT_LE(max_error(c, expected), 1e-5);
}

TEST(BlasGemm, SaysTheSameInColumnsForEveryOrder) {
  for (const std::int64_t batch : {1, 3}) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{5, 7, 4}, {1, 6, 3}, {6, 1, 3}, {4, 5, 1}, {1, 1, 1}}) {
      for (const bool a_transposed : {false, true}) {
        for (const bool b_transposed : {false, true}) {
          const Tensor a = matrix(batch, m, k, a_transposed, 1), b = matrix(batch, k, n, b_transposed, 2);
          const Tensor bias = randn({n}, 3), c = randn({batch, m, n}, 4);
          check_product({.a = a.view(), .b = b.view(), .c = c.view()}, c);
          check_product(
              {.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias.view(), .alpha = 0.5F, .beta = 2},
              c);
        }
      }
    }
  }
}

TEST(BlasGemm, TakesBroadcastBatchesAndPartsOfRows) {
  const Tensor a = randn({3, 4, 5}, 1), wide = randn({5, 20}, 2), c = randn({3, 4, 6}, 3);
  View b = wide.view();
  b.rank = 3;
  b.shape = {3, 5, 6};
  b.strides = {0, 20, 1};
  check_product({.a = a.view(), .b = b, .c = c.view()}, c);
}

// As attention has them that multiplies its scores itself: [B, S, H, D] with the middle axes transposed.
TEST(BlasGemm, TakesHeadsThatLieBesideEachOther) {
  const std::int64_t batch = 2, heads = 3, length = 5, size = 4;
  const Tensor q = transpose(randn({batch, length, heads, size}, 1), 1, 2);
  const Tensor k = transpose(transpose(randn({batch, length, heads, size}, 2), 1, 2), 2, 3);
  const Tensor scores = randn({batch, heads, length, length}, 3), expected = clone(scores);
  launch(gemm, {}, {.a = q.view(), .b = k.view(), .c = expected.view(), .alpha = 0.5F, .beta = 2});
  const auto product =
      blas_gemm(GemmArgs{.a = q.view(), .b = k.view(), .c = scores.view(), .alpha = 0.5F, .beta = 2});
  ASSERT_TRUE(product);
  EXPECT_EQ(product->outer * product->batch, batch * heads);
  multiply(*product);
  EXPECT_LE(max_error(scores, expected), 1e-5);
}

TEST(BlasGemm, SaysGeluBehindAMatmul) {
  const Tensor a = randn({5, 4}, 1), b = randn({4, 8}, 2), bias = randn({8}, 3);
  for (const bool keeps : {false, true}) {
    const Tensor c = randn({5, 8}, 4), before = randn({5, 8}, 5), expected = clone(c),
                 argument = clone(before);
    launch(gemm_gelu, {},
           {.a = a.view(),
            .b = b.view(),
            .c = expected.view(),
            .bias = bias.view(),
            .before = keeps ? argument.view() : View{}});
    const auto product = blas_gemm(GemmGeluArgs{.a = a.view(),
                                                .b = b.view(),
                                                .c = c.view(),
                                                .bias = bias.view(),
                                                .before = keeps ? before.view() : View{}});
    ASSERT_TRUE(product);
    multiply(*product);
    EXPECT_LE(max_error(c, expected), 1e-5);
    EXPECT_LE(max_error(before, argument), 1e-5);
  }
  const Tensor odd = randn({4, 7}, 6), c = randn({5, 7}, 7), before = randn({5, 7}, 8);
  GemmGeluArgs args{.a = a.view(), .b = odd.view(), .c = c.view()};
  EXPECT_TRUE(blas_gemm(args));
  args.before = before.view();  // 7 elements from column to column
  EXPECT_FALSE(blas_gemm(args));
}

TEST(BlasGemm, SaysTheGradientOfGeluBehindAMatmul) {
  const Tensor dy = randn({5, 4}, 1), weight = randn({4, 8}, 2), before = randn({5, 8}, 3);
  const Tensor c = randn({5, 8}, 4), expected = clone(c), argument = clone(before);
  GemmGeluBackwardArgs args{
      .a = dy.view(), .b = weight.view(), .before = before.view(), .c = expected.view()};
  launch(gemm_gelu_backward, {}, args);
  args.c = c.view();
  const auto product = blas_gemm(args);
  ASSERT_TRUE(product);
  multiply(*product);
  EXPECT_LE(max_error(c, expected), 1e-5);
  EXPECT_EQ(max_error(before, argument), 0.0);

  const Tensor odd = randn({4, 7}, 5), narrow = randn({5, 7}, 6), out = randn({5, 7}, 7);
  EXPECT_FALSE(blas_gemm(
      GemmGeluBackwardArgs{.a = dy.view(), .b = odd.view(), .before = narrow.view(), .c = out.view()}));
}

TEST(BlasGemm, SaysTheGradientsOfALinearLayersParameters) {
  const Tensor dy = randn({6, 5}, 1), partials = Tensor::empty({scratch_parts(kCpu), 5});
  for (const bool transposed : {false, true}) {
    const Tensor x = transposed ? transpose(randn({4, 6}, 2), 0, 1) : randn({6, 4}, 2);
    for (const bool adds : {false, true}) {
      const Tensor dweight = randn({5, 4}, 3), dbias = randn({5}, 4);
      const Tensor expected = clone(dweight), expected_bias = clone(dbias);
      LinearParametersBackwardArgs args{.dy = dy.view(),
                                        .x = x.view(),
                                        .dweight = expected.view(),
                                        .dbias = expected_bias.view(),
                                        .partials = partials.view(),
                                        .accumulate_weight = adds};
      launch(linear_parameters_backward, {}, args);
      args.dweight = dweight.view();
      args.dbias = dbias.view();
      const auto product = blas_gemm(args);
      ASSERT_TRUE(product);
      multiply(*product);
      EXPECT_LE(max_error(dweight, expected), 1e-5);
      EXPECT_LE(max_error(dbias, expected_bias), 1e-5);
    }
  }
}

TEST(BlasGemm, AddsToTheGradientOfABiasOnlyWhereItIsAligned) {
  const Tensor dy = randn({6, 5}, 1), x = randn({6, 4}, 2), dweight = randn({5, 4}, 3),
               memory = randn({69}, 4);
  View dbias = memory.view();
  dbias.shape[0] = 5;
  const auto address = reinterpret_cast<std::uintptr_t>(dbias.data);
  dbias.data = reinterpret_cast<void*>((address + 255) / 256 * 256);
  LinearParametersBackwardArgs args{
      .dy = dy.view(), .x = x.view(), .dweight = dweight.view(), .dbias = dbias, .accumulate_bias = true};
  EXPECT_TRUE(blas_gemm(args));
  args.dbias.data = dbias.as<float>() + 4;
  EXPECT_FALSE(blas_gemm(args));
  args.accumulate_bias = false;
  EXPECT_TRUE(blas_gemm(args));
}

// A library may take 16 bytes of these at a time, however they lie.
TEST(BlasGemm, LeavesEpiloguesAtAddressesThat16DoesNotDivide) {
  const Tensor a = randn({5, 4}, 1), b = randn({4, 8}, 2), c = randn({5, 8}, 3), memory = randn({48}, 4);
  const auto skipping = [&](std::int64_t elements, View view) {
    view.data = memory.data<float>() + elements;
    return view;
  };
  const Tensor bias = randn({8}, 5), before = randn({5, 8}, 6), dbias = randn({5}, 7);
  const Tensor dy = randn({6, 5}, 8), x = randn({6, 4}, 9), dweight = randn({5, 4}, 10);
  const Tensor small = Tensor::zeros({5, 32}, DType::f8e4m3), weight = Tensor::zeros({8, 32}, DType::f8e4m3),
               half = Tensor::zeros({5, 8}, DType::bf16), half_bias = Tensor::zeros({16}, DType::bf16),
               scale = randn({1}, 11);
  for (const std::int64_t skipped : {0, 1, 2, 3, 4}) {
    const bool taken = skipped % 4 == 0;
    const View at_bias = skipping(skipped, bias.view()), at_before = skipping(skipped, before.view());
    const GemmArgs with_bias{.a = a.view(), .b = b.view(), .c = c.view(), .bias = at_bias};
    EXPECT_EQ(blas_gemm(with_bias).has_value(), taken) << skipped;
    const GemmGeluArgs with_gelu{.a = a.view(), .b = b.view(), .c = c.view(), .before = at_before};
    EXPECT_EQ(blas_gemm(with_gelu).has_value(), taken) << skipped;
    const GemmGeluBackwardArgs gradient{.a = a.view(), .b = b.view(), .before = at_before, .c = c.view()};
    EXPECT_EQ(blas_gemm(gradient).has_value(), taken) << skipped;
    const LinearParametersBackwardArgs parameters{
        .dy = dy.view(), .x = x.view(), .dweight = dweight.view(), .dbias = skipping(skipped, dbias.view())};
    EXPECT_EQ(blas_gemm(parameters).has_value(), taken) << skipped;
    View at_half = half_bias.view();
    at_half.shape[0] = 8;
    at_half.data = half_bias.data<bf16>() + 2 * skipped;
    const Fp8MatmulArgs floats{.a = small.view(),
                               .b = weight.view(),
                               .c = half.view(),
                               .a_scale = scale.view(),
                               .b_scale = scale.view(),
                               .bias = at_half};
    EXPECT_EQ(blas_gemm(floats).has_value(), taken) << skipped;
  }
}

// What the library multiplies are bytes; here only where they lie is checked, by the numbers of 8 bits
// themselves.
TEST(BlasGemm, SaysAMatmulOfFp8) {
  const Tensor a = to(randn({5, 32}, 1), DType::f8e4m3), b = to(randn({7, 32}, 2), DType::f8e5m2);
  const Tensor c = randn({5, 7}, 3), sa = randn({1}, 4), sb = randn({1}, 5), expected = clone(c);
  const auto args = [&](const Tensor& result) {
    return Fp8MatmulArgs{
        .a = a.view(), .b = b.view(), .c = result.view(), .a_scale = sa.view(), .b_scale = sb.view()};
  };
  launch(fp8_matmul, {}, args(expected));
  const auto product = blas_gemm(args(c));
  ASSERT_TRUE(product);
  const BlasGemm& p = *product;
  EXPECT_TRUE(p.a.transposed && !p.b.transposed);  // the only way that the units for 8 bits have
  EXPECT_EQ(p.a.dtype, DType::f8e5m2);
  EXPECT_EQ(p.b.dtype, DType::f8e4m3);
  for (std::int64_t column = 0; column < p.c.columns; ++column) {
    for (std::int64_t row = 0; row < p.c.rows; ++row) {
      float sum = 0;
      for (std::int64_t d = 0; d < p.a.rows; ++d) {
        sum += static_cast<float>(static_cast<const f8e5m2*>(p.a.data)[row * p.a.leading + d]) *
               static_cast<float>(static_cast<const f8e4m3*>(p.b.data)[column * p.b.leading + d]);
      }
      static_cast<float*>(p.c.data)[column * p.c.leading + row] = sum * *p.a_scale * *p.b_scale;
    }
  }
  EXPECT_LE(max_error(c, expected), 1e-5);
  Fp8MatmulArgs left = args(c);
  left.a.shape[1] = left.b.shape[1] = 31;
  EXPECT_FALSE(blas_gemm(left));
}

// Columns of a share a scale with 127 others, those of b have their own; each for 128 of the depth.
TEST(BlasGemm, SaysScalesByBlocksAsTheLibraryReadsThem) {
  const std::int64_t m = 8, n = 132, k = 656, parts = 6;
  const Tensor a = to(randn({m, k}, 1), DType::f8e4m3), b = to(randn({n, k}, 2), DType::f8e4m3);
  const Tensor sa = randn({m, parts}, 3), sb = randn({2, parts}, 4), c = randn({m, n}, 5),
               expected = clone(c);
  Fp8MatmulArgs args{
      .a = a.view(), .b = b.view(), .c = expected.view(), .a_scale = sa.view(), .b_scale = sb.view()};
  launch(fp8_matmul, {}, args);
  args.c = c.view();
  const auto product = blas_gemm(args);
  ASSERT_TRUE(product && product->block_scales);
  const BlasScales scales(args, {});
  EXPECT_EQ(scales.a.shape(), Shape({2, 8}));
  EXPECT_EQ(scales.b.shape(), Shape({parts, m}));
  for (std::int64_t column = 0; column < m; ++column) {
    for (std::int64_t row = 0; row < n; ++row) {
      float sum = 0;
      for (std::int64_t d = 0; d < k; ++d) {
        const float a_scale = scales.a.data<float>()[row / 128 * 8 + d / 128];
        const float b_scale = scales.b.data<float>()[d / 128 * m + column];
        sum += static_cast<float>(static_cast<const f8e4m3*>(product->a.data)[row * k + d]) * a_scale *
               (static_cast<float>(static_cast<const f8e4m3*>(product->b.data)[column * k + d]) * b_scale);
      }
      c.data<float>()[column * n + row] = sum;
    }
  }
  EXPECT_LE(max_error(c, expected), 1e-4);  // sums of 656 products in another order
  for (const std::int64_t padding : {6, 7}) EXPECT_EQ(scales.a.data<float>()[padding], 0);
  args.a.shape[0] = args.c.shape[0] = args.a_scale.shape[0] = 6;  // rows that the library does not take
  EXPECT_FALSE(blas_gemm(args));
}

TEST(BlasGemm, LeavesWhatColumnsCannotSay) {
  const Tensor a = randn({3, 4, 5}, 1), b = randn({3, 5, 6}, 2), c = randn({3, 4, 6}, 3);
  const GemmArgs good{.a = a.view(), .b = b.view(), .c = c.view()};
  EXPECT_TRUE(blas_gemm(good));
  GemmArgs args = good;
  args.c.strides[0] = 0;  // a sum over the batch
  EXPECT_FALSE(blas_gemm(args));
  args = good;
  args.a.strides[2] = 2;
  EXPECT_FALSE(blas_gemm(args));
  args = good;
  args.b.strides[1] = 0;  // rows broadcast
  EXPECT_FALSE(blas_gemm(args));
  args = good;
  std::swap(args.c.strides[1], args.c.strides[2]);  // c column-major
  args.c.strides[2] = 4;
  EXPECT_FALSE(blas_gemm(args));
  args = good;
  args.b.dtype = DType::bf16;
  EXPECT_FALSE(blas_gemm(args));
  args = good;
  args.a.shape[2] = args.b.shape[1] = 0;  // nothing to multiply
  EXPECT_FALSE(blas_gemm(args));
}

}  // namespace
}  // namespace ingot::kernels::cuda
