#include "ingot/kernels/cpu/x86/weight_only.h"

#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/reads_backward.h"

namespace ingot::kernels::cpu {

void multiply_float_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel) {
  constexpr std::int64_t kChunkBytes = 512 * 1024;  // of activations: half of a core's L2
  constexpr std::int64_t kRowsAtOnce = 12;          // of the widest kernel
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), k = args.x.dim(-1);
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows, panel_bytes = args.weight.dim(-1);
  const std::int64_t fitting = kChunkBytes / (4 * std::max<std::int64_t>(k, 1)) / kRowsAtOnce * kRowsAtOnce;
  const std::int64_t chunk = std::min(m, std::max(fitting, kRowsAtOnce));
  // A thread's share is worth waking it for from some 64 KiB on.
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (panel_bytes * std::min<std::int64_t>(m, 16)));
  parallel_for(panels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += chunk) {
      for (std::int64_t p = begin; p < end; ++p) {
        const FloatPanelMatmul matmul{.panel = args.weight.as<std::uint8_t>() + p * panel_bytes,
                                      .panel_bytes = panel_bytes,
                                      .panels = 1,
                                      .x = args.x.as<float>() + row * args.x.stride(0),
                                      .k = k,
                                      .x_stride = args.x.stride(0),
                                      .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                      .y_stride = args.y.stride(0),
                                      .cols = std::min(kPanelRows, n - p * kPanelRows),
                                      .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                      .add = false,
                                      .next = nullptr};
        kernel(matmul, std::min(chunk, m - row));
      }
    }
  });
}

namespace {

// How f32 matmuls are cut: pieces of rows and columns of x that stay in L2 beside two groups of panels.
struct F32Pieces {
  std::int64_t rows, cols;
};
F32Pieces f32_pieces(std::int64_t lanes, std::int64_t m, std::int64_t k) {
  if (m <= kFewFloatRows) return {m, k};
  // 504 KiB, half of L2 in processors with AVX-512; 192 KiB of the 256 or 512 that others have.
  const F32Pieces most = lanes == 16 ? F32Pieces{168, 768} : F32Pieces{96, 512};
  const std::int64_t tile = f32_tile_rows(lanes), pieces = (m + most.rows - 1) / most.rows;
  return {((m + pieces - 1) / pieces + tile - 1) / tile * tile, most.cols};
}

}  // namespace

void multiply_f32_panels(const WeightOnlyMatmulArgs& args, std::int64_t lanes, FloatPanelKernel kernel) {
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), k = args.x.dim(-1);
  const F32Pieces piece = f32_pieces(lanes, m, k);
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows, panel_bytes = args.weight.dim(-1);
  const std::int64_t at_once = f32_panels(lanes, m), groups = (panels + at_once - 1) / at_once;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 65536 / (at_once * panel_bytes * std::min<std::int64_t>(m, 16)));
  const bool backward = m <= kFewFloatRows && reads_backward(args.weight.data);
  const auto multiply = [&](std::int64_t row, std::int64_t col, std::int64_t group, std::int64_t next) {
    const std::int64_t p = group * at_once, there = std::min(at_once, panels - p);
    const bool biased = args.bias && col + piece.cols >= k,
               more = (next + 1) * at_once <= panels && next >= 0;
    const std::uint8_t* columns = args.weight.as<std::uint8_t>() + col * kPanelRows * 4;
    const FloatPanelMatmul matmul{.panel = columns + p * panel_bytes,
                                  .panel_bytes = panel_bytes,
                                  .panels = there,
                                  .x = args.x.as<float>() + row * args.x.stride(0) + col,
                                  .k = std::min(piece.cols, k - col),
                                  .x_stride = args.x.stride(0),
                                  .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                  .y_stride = args.y.stride(0),
                                  .cols = std::min(there * kPanelRows, n - p * kPanelRows),
                                  .bias = biased ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                  .add = col > 0,
                                  .next = more ? columns + next * at_once * panel_bytes : nullptr};
    kernel(matmul, std::min(piece.rows, m - row));
  };
  parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
    if (backward) {
      for (std::int64_t group = end - 1; group >= begin; --group)
        multiply(0, 0, group, group > begin ? group - 1 : -1);
      return;
    }
    for (std::int64_t row = 0; row < m; row += piece.rows) {
      for (std::int64_t col = 0; col < k; col += piece.cols) {
        for (std::int64_t group = begin; group < end; ++group)
          multiply(row, col, group, group + 1 < end ? group + 1 : -1);
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
