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
                                      .next = false};
        kernel(matmul, std::min(chunk, m - row));
      }
    }
  });
}

// Tiles of f32 are larger: in pieces of columns, whose activations stay in L2 beside two pairs of panels.
void multiply_f32_panels(const WeightOnlyMatmulArgs& args, FloatPanelKernel kernel) {
  constexpr std::int64_t kCols = 768;
  constexpr std::int64_t kRows = 168;    // 504 KiB of activations: half of a core's L2
  constexpr std::int64_t kFewRows = 12;  // are bound by reading the panels, one after the other
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), k = args.x.dim(-1);
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows, panel_bytes = args.weight.dim(-1);
  const std::int64_t at_once = m >= kFewRows ? 2 : 1, groups = (panels + at_once - 1) / at_once;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 65536 / (at_once * panel_bytes * std::min<std::int64_t>(m, 16)));
  parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += kRows) {
      for (std::int64_t col = 0; col < k; col += kCols) {
        const bool last = col + kCols >= k;
        for (std::int64_t group = begin; group < end; ++group) {
          const bool biased = last && args.bias;
          const std::int64_t p = group * at_once, there = std::min(at_once, panels - p);
          const FloatPanelMatmul matmul{
              .panel = args.weight.as<std::uint8_t>() + p * panel_bytes + col * kPanelRows * 4,
              .panel_bytes = panel_bytes,
              .panels = there,
              .x = args.x.as<float>() + row * args.x.stride(0) + col,
              .k = std::min(kCols, k - col),
              .x_stride = args.x.stride(0),
              .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
              .y_stride = args.y.stride(0),
              .cols = std::min(there * kPanelRows, n - p * kPanelRows),
              .bias = biased ? args.bias.as<float>() + p * kPanelRows : nullptr,
              .add = col > 0,
              .next = group + 1 < end && p + 2 * at_once <= panels};
          kernel(matmul, std::min(kRows, m - row));
        }
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
