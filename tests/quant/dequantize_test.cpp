#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/quantized.h"
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

}  // namespace
}  // namespace ingot::kernels
