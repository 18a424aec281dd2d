#include "tests/emulated_gpu/block.h"
#include "tests/kernels/cuda/device.h"
#include <gtest/gtest.h>

#include "ingot/kernels/attention.h"
#include "ingot/kernels/grouped.h"
#include "ingot/kernels/packed.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/weight_only.h"

// Grids of operands with more than 65535 of what is cut into blocks: a GPU takes them only along x. They are
// checked and not run, which would take minutes.
namespace ingot {
namespace {

using kernels::PackedFormat;

using test::kDevice;

/// `rows` rows of one memory: what is not run needs no more.
View rows_of(const Tensor& row, std::int64_t rows) {
  View view = row.view();
  view.shape[0] = rows;
  view.strides[0] = 0;
  return view;
}

TEST(CudaGrids, TakeMoreThan65535Sequences) {
  const kernels::cuda::emulation::ChecksOnly without_running;
  constexpr std::int64_t kSequences = 70000;
  const Stream stream = current_stream(kDevice);
  const Tensor sums = Tensor::empty({kSequences, 1, 1}, DType::f32, kDevice);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor one = Tensor::empty({1, 1, 1, 8}, dtype, kDevice);
    const View x = rows_of(one, kSequences);
    EXPECT_NO_THROW(
        launch(kernels::attention, stream, {.q = x, .k = x, .v = x, .out = x, .lse = sums.view()}))
        << name(dtype);
    EXPECT_NO_THROW(launch(kernels::attention_backward, stream,
                           {.q = x,
                            .k = x,
                            .v = x,
                            .out = x,
                            .lse = sums.view(),
                            .dout = x,
                            .dq = x,
                            .dk = x,
                            .dv = x,
                            .delta = sums.view()}))
        << name(dtype);
  }
}

TEST(CudaGrids, TakeMatmulsOfAMillionRowsWithPackedWeights) {
  const kernels::cuda::emulation::ChecksOnly without_running;
  constexpr std::int64_t kRows = 1 << 20;
  const auto weight = [](PackedFormat format) {
    const auto bytes = static_cast<std::int64_t>(kernels::packed_layout(format).panel_bytes(32));
    return Tensor::empty({1, bytes}, DType::u8, kDevice);
  };
  const Tensor y = Tensor::empty({1, 16}, DType::f32, kDevice);
  const Stream stream = current_stream(kDevice);
  const Tensor rounded = Tensor::empty({1, 64}, DType::u8, kDevice), packed = weight(PackedFormat::q8_0);
  EXPECT_NO_THROW(launch(kernels::quantized_matmul, stream,
                         {.format = PackedFormat::q8_0,
                          .x = rows_of(rounded, kRows),
                          .weight = packed.view(),
                          .y = rows_of(y, kRows)}));
  const Tensor scaled = Tensor::empty({1, 128}, DType::u8, kDevice), by_row = weight(PackedFormat::w8a8);
  EXPECT_NO_THROW(launch(kernels::row_scaled_matmul, stream,
                         {.x = rows_of(scaled, kRows), .weight = by_row.view(), .y = rows_of(y, kRows)}));
  const Tensor x = Tensor::empty({1, 32}, DType::f32, kDevice);
  for (const PackedFormat format : {PackedFormat::f32, PackedFormat::fp8}) {
    const Tensor values = weight(format);
    EXPECT_NO_THROW(
        launch(kernels::weight_only_matmul, stream,
               {.format = format, .x = rows_of(x, kRows), .weight = values.view(), .y = rows_of(y, kRows)}));
  }
}

TEST(CudaGrids, TakeNineMillionRowsOfExperts) {
  const kernels::cuda::emulation::ChecksOnly without_running;
  constexpr std::int64_t kRows = 9 << 20;
  const Tensor a = Tensor::empty({1, 8}, DType::bf16, kDevice),
               b = Tensor::empty({2, 8, 8}, DType::bf16, kDevice),
               offsets = Tensor::empty({3}, DType::i64, kDevice);
  EXPECT_NO_THROW(
      launch(kernels::grouped_gemm, current_stream(kDevice),
             {.a = rows_of(a, kRows), .b = b.view(), .c = rows_of(a, kRows), .offsets = offsets.view()}));
}

}  // namespace
}  // namespace ingot
