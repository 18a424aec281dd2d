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
                                        .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr};
        kernel(product, std::min(chunk, m - row));
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
