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

void multiply_f32_panels(const WeightOnlyMatmulArgs& args, std::int64_t lanes, FloatPanelKernel kernel) {
  constexpr std::int64_t kCols = 256, kPanels = 8;  // 128 KiB, which stay in L2 for all rows
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), k = args.x.dim(-1);
  const bool few = m <= kFewFloatRows;  // read each panel once
  const std::int64_t panels = (n + kPanelRows - 1) / kPanelRows, panel_bytes = args.weight.dim(-1);
  const std::int64_t at_once = few ? f32_panels(lanes, m) : kPanels, cols = few ? k : kCols;
  const std::int64_t unit = f32_panels(lanes, m), units = (panels + unit - 1) / unit;
  const std::int64_t grain =
      std::max<std::int64_t>(1, 65536 / (unit * panel_bytes * std::min<std::int64_t>(m, 16)));
  const bool backward = few && reads_backward(args.weight.data);
  const auto panel_at = [&](std::int64_t p, std::int64_t col) {
    return args.weight.as<std::uint8_t>() + p * panel_bytes + col * kPanelRows * 4;
  };
  const auto multiply = [&](std::int64_t col, std::int64_t p, std::int64_t end, const std::uint8_t* next) {
    const bool biased = args.bias && col + cols >= k;
    kernel({.panel = panel_at(p, col),
            .panel_bytes = panel_bytes,
            .panels = end - p,
            .x = args.x.as<float>() + col,
            .k = std::min(cols, k - col),
            .x_stride = args.x.stride(0),
            .y = args.y.as<float>() + p * kPanelRows,
            .y_stride = args.y.stride(0),
            .cols = std::min(end * kPanelRows, n) - p * kPanelRows,
            .bias = biased ? args.bias.as<float>() + p * kPanelRows : nullptr,
            .add = col > 0,
            .next = next},
           m);
  };
  parallel_for(units, grain, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * unit, end = std::min(last * unit, panels);
    if (backward) {
      for (std::int64_t p = (last - 1) * unit; p >= begin; p -= unit)
        multiply(0, p, std::min(p + unit, end), p > begin ? panel_at(p - unit, 0) : nullptr);
      return;
    }
    for (std::int64_t p = begin; p < end; p += at_once) {
      for (std::int64_t col = 0; col < k; col += cols) {
        const bool more = col + cols < k;
        const bool is_last = p + 2 * at_once > end;
        const std::uint8_t* next = more      ? panel_at(p, col + cols)
                                   : is_last ? nullptr
                                             : panel_at(p + at_once, 0);
        multiply(col, p, std::min(p + at_once, end), next);
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
