#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/runs.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/packed_matrix.h"

// Values of whole packed matrices.
namespace ingot::kernels {
namespace {

Tensor dequantized(const quant::PackedMatrix& weight, DType dtype, ImplKind kind) {
  // Wider than the matrix: what lies behind a row stays.
  const Tensor y = to(testing::filled({weight.rows, weight.cols + 3}, 7), dtype);
  View part = y.view();
  part.shape[1] = weight.cols;
  const ForceKind forced(kind);
  launch(dequantize_rows, current_stream(kCpu),
         {.format = weight.format, .weight = weight.data.view(), .ids = {}, .y = part});
  return to(y, DType::f32);
}

TEST(DequantizeRows, WriteTheBitsOfTheReferenceInF32AndRoundedToBf16) {
  for (const std::string& format : quant::quantized_formats()) {
    // Rows and columns beside whole panels and blocks, where the format has such.
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{33, 512}, {16, 1280}, {5, 256}}) {
      const quant::PackedPtr weight = quant::quantize_and_pack(testing::randn({rows, cols}, 1), format);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const std::vector<float> ours = dequantized(*weight, dtype, ImplKind::simd).to_vector<float>();
        const std::vector<float> theirs = dequantized(*weight, dtype, ImplKind::reference).to_vector<float>();
        ASSERT_EQ(ours.size(), theirs.size());
        for (std::size_t i = 0; i < ours.size(); ++i)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(ours[i]), std::bit_cast<std::uint32_t>(theirs[i]))
              << format << " " << name(dtype) << " " << i << ": " << ours[i] << " and " << theirs[i];
      }
    }
  }
}

TEST(DequantizeRows, ColumnsBesideWholeBlocksAreWritten) {
  const quant::PackedPtr weight = quant::quantize_and_pack(testing::randn({19, 70}, 1), "fp8");
  for (const DType dtype : {DType::f32, DType::bf16})
    EXPECT_EQ(dequantized(*weight, dtype, ImplKind::simd).to_vector<float>(),
              dequantized(*weight, dtype, ImplKind::reference).to_vector<float>())
        << name(dtype);
}

TEST(DequantizeRows, Bf16IsTheNearestOfTheF32Value) {
  const quant::PackedPtr weight = quant::quantize_and_pack(testing::randn({32, 256}, 1), "nf4");
  EXPECT_EQ(dequantized(*weight, DType::bf16, ImplKind::reference).to_vector<float>(),
            to(to(dequantized(*weight, DType::f32, ImplKind::reference), DType::bf16), DType::f32)
                .to_vector<float>());
}

struct WidensBf16 {
  WidensBf16() { set_bf16_dot_products(false); }
  ~WidensBf16() { set_bf16_dot_products(std::nullopt); }
};

// By dequantized_gemm, or by gemm of all values.
std::vector<float> product(const quant::PackedMatrix& weight, bool transposed, float beta, bool in_pieces) {
  const std::int64_t rows = 130, k = transposed ? weight.cols : weight.rows,
                     n = transposed ? weight.rows : weight.cols;
  const Tensor a = testing::randn({rows, k}, 2, DType::bf16), c = testing::randn({rows, n}, 3, DType::bf16);
  const Tensor bias = transposed ? testing::randn({n}, 4, DType::bf16) : Tensor();
  DequantizedGemmArgs args{.format = weight.format,
                           .a = a.view(),
                           .weight = weight.data.view(),
                           .c = c.view(),
                           .bias = bias.defined() ? bias.view() : View{},
                           .transposed = transposed,
                           .beta = beta};
  if (in_pieces) {
    EXPECT_TRUE(runs(dequantized_gemm, DeviceType::cpu, args));
    launch(dequantized_gemm, current_stream(kCpu), args);
  } else {
    const Tensor values = quant::values(weight, DType::bf16);
    GemmArgs whole = args.gemm();
    whole.b.data = values.view().data;
    launch(gemm, current_stream(kCpu), whole);
  }
  return to(c, DType::f32).to_vector<float>();
}

TEST(DequantizedGemm, HasTheBitsOfGemmWithAllValuesAtOnce) {
  const WidensBf16 widened;
  for (const char* format : {"nf4", "q4_k", "q6_k", "int4-g128-zero"}) {
    // Two blocks of columns each way, the second with a panel that is not whole.
    const quant::PackedPtr weight = quant::quantize_and_pack(testing::randn({1100, 1280}, 1), format);
    for (const bool transposed : {true, false})
      for (const float beta : {0.0F, 1.0F})
        EXPECT_EQ(product(*weight, transposed, beta, true), product(*weight, transposed, beta, false))
            << format << (transposed ? " transposed" : "") << " beta " << beta;
  }
}

TEST(DequantizedGemm, LeavesWhatGemmDoesNotWidenAndFewRowsToGemm) {
  const quant::PackedPtr weight = quant::quantize_and_pack(testing::randn({256, 256}, 1), "nf4");
  const auto takes = [&](std::int64_t rows, DType dtype) {
    const Tensor a = to(testing::filled({rows, 256}, 1), dtype),
                 c = to(testing::filled({rows, 256}, 1), dtype);
    return runs(dequantized_gemm, DeviceType::cpu,
                {.format = weight->format, .a = a.view(), .weight = weight->data.view(), .c = c.view()});
  };
  const WidensBf16 widened;
  EXPECT_TRUE(takes(128, DType::bf16));
  EXPECT_FALSE(takes(16, DType::bf16));
  EXPECT_FALSE(takes(128, DType::f32));
  EXPECT_FALSE(takes(128, DType::f16));
}

}  // namespace
}  // namespace ingot::kernels
