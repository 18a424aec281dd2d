#include "ingot/kernels/cpu/x86/weight_only.h"

#include <algorithm>

#include "ingot/base/parallel.h"

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
        const FloatPanelProduct product{.panel = args.weight.as<std::uint8_t>() + p * panel_bytes,
                                        .x = args.x.as<float>() + row * args.x.stride(0),
                                        .k = k,
                                        .x_stride = args.x.stride(0),
                                        .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                        .y_stride = args.y.stride(0),
                                        .cols = std::min(kPanelRows, n - p * kPanelRows),
                                        .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                        .add = false};
        kernel(product, std::min(chunk, m - row));
      }
    }
  });
}

// Tiles of f32 are larger: in pieces of columns, so that a piece of a panel is in L1 or near it for all rows.
void multiply_f32_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel) {
  constexpr std::int64_t kCols = 768;
  constexpr std::int64_t kRows = 168;  // 504 KiB of activations: half of a core's L2
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), k = args.x.dim(-1);
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows, panel_bytes = args.weight.dim(-1);
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (panel_bytes * std::min<std::int64_t>(m, 16)));
  parallel_for(panels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += kRows) {
      for (std::int64_t col = 0; col < k; col += kCols) {
        const bool last = col + kCols >= k;
        for (std::int64_t p = begin; p < end; ++p) {
          const bool biased = last && args.bias;
          const FloatPanelProduct product{
              .panel = args.weight.as<std::uint8_t>() + p * panel_bytes + col * kPanelRows * 4,
              .x = args.x.as<float>() + row * args.x.stride(0) + col,
              .k = std::min(kCols, k - col),
              .x_stride = args.x.stride(0),
              .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
              .y_stride = args.y.stride(0),
              .cols = std::min(kPanelRows, n - p * kPanelRows),
              .bias = biased ? args.bias.as<float>() + p * kPanelRows : nullptr,
              .add = col > 0};
          kernel(product, std::min(kRows, m - row));
        }
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
