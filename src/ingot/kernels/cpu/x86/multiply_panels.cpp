#include <algorithm>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/x86/quantized.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kChunkBytes = 512 * 1024;  // of activations: half of a core's L2
constexpr std::int64_t kRowsAtOnce = 12;          // of the widest kernel
constexpr std::int64_t kPieceBytes = 32 * 1024;   // of weights: about 1 µs of reading

std::int64_t chunk_rows(std::int64_t m, std::int64_t row_bytes) {
  const std::int64_t fitting = std::max(kChunkBytes / row_bytes / kRowsAtOnce * kRowsAtOnce, kRowsAtOnce);
  return std::min(m, fitting);
}

}  // namespace

void multiply_panels(const QuantizedMatmulArgs& args, PanelKernel kernel) {
  const PackedLayout layout = packed_layout(args.format);
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), panels = (n + kPanelRows - 1) / kPanelRows;
  const std::int64_t panel_bytes = args.weight.dim(-1), x_stride = args.x.stride(0);
  const std::int64_t steps = panel_bytes / static_cast<std::int64_t>(layout.step_bytes());
  const std::int64_t chunk = chunk_rows(m, x_stride);
  // Many rows go over two panels at once; few are bound by reading them, one after the other.
  const std::int64_t at_once = m > kRowsAtOnce ? 2 : 1, groups = (panels + at_once - 1) / at_once;
  const std::int64_t group_bytes = at_once * panel_bytes;
  // A thread's share is worth waking it for from some 64 KiB on.
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (group_bytes * std::min<std::int64_t>(m, 16)));
  const auto multiply = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += chunk) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t p = group * at_once, there = std::min(at_once, panels - p);
        const PanelMatmul matmul{.panel = args.weight.as<std::uint8_t>() + p * panel_bytes,
                                 .panel_bytes = panel_bytes,
                                 .panels = there,
                                 .steps = steps,
                                 .x = args.x.as<std::uint8_t>() + row * x_stride,
                                 .x_stride = x_stride,
                                 .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                 .y_stride = args.y.stride(0),
                                 .cols = std::min(there * kPanelRows, n - p * kPanelRows),
                                 .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                 .add = false,
                                 .next = group + 1 < end && p + 2 * at_once <= panels};
        kernel(matmul, std::min(chunk, m - row));
      }
    }
  };
  // Many rows are worth a large share, whose activations stay in L2; few are done before a thread is awake.
  if (m > kRowsAtOnce) return parallel_for(groups, grain, multiply);
  parallel_share(groups, grain, 1 + kPieceBytes / group_bytes, multiply);
}

void multiply_row_scaled(const RowScaledMatmulArgs& args, const RowScaledKernel& kernel) {
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), panels = (n + kPanelRows - 1) / kPanelRows;
  const std::int64_t panel_bytes = args.weight.dim(-1), x_stride = args.x.stride(0);
  const std::int64_t groups = (panels + kernel.panels - 1) / kernel.panels;
  const std::int64_t group_bytes = kernel.panels * panel_bytes;
  const std::int64_t chunk = chunk_rows(m, x_stride);
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (group_bytes * std::min<std::int64_t>(m, 16)));
  const auto multiply = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += chunk) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t p = group * kernel.panels, there = std::min(kernel.panels, panels - p);
        const std::int64_t after = std::min(kernel.panels, panels - p - there);
        const RowScaledMatmul matmul{.panel = args.weight.as<std::uint8_t>() + p * panel_bytes,
                                     .panel_bytes = panel_bytes,
                                     .panels = there,
                                     .x = args.x.as<std::uint8_t>() + row * x_stride,
                                     .x_stride = x_stride,
                                     .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                     .y_stride = args.y.stride(0),
                                     .cols = std::min(there * kPanelRows, n - p * kPanelRows),
                                     .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                     .add = false,
                                     .ahead_lines = group + 1 < end ? after * panel_bytes / 64 : 0};
        kernel.run(matmul, std::min(chunk, m - row));
      }
    }
  };
  if (m > kRowsAtOnce) return parallel_for(groups, grain, multiply);
  parallel_share(groups, grain, 1 + kPieceBytes / group_bytes, multiply);
}

void multiply_requantized(const QuantizedMatmulArgs& args, const RequantizedKernel& kernel) {
  constexpr std::int64_t kChunkRows = 512;  // of which a span of up to 576 bytes lies in L2
  constexpr auto kSpanOfBlocks =
      kPackedSpan / kPackedBlock * static_cast<std::int64_t>(sizeof(ActivationBlock));
  const std::int64_t m = args.y.dim(0), n = args.y.dim(-1), panels = (n + kPanelRows - 1) / kPanelRows;
  const std::int64_t panel_bytes = args.weight.dim(-1), groups = (panels + kernel.panels - 1) / kernel.panels;
  parallel_for(groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < m; row += kChunkRows) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t p = group * kernel.panels, there = std::min(kernel.panels, panels - p);
        const RowScaledMatmul matmul{.panel = args.weight.as<std::uint8_t>() + p * panel_bytes,
                                     .panel_bytes = panel_bytes,
                                     .panels = there,
                                     .x = args.x.as<std::uint8_t>() + row * args.x.stride(0),
                                     .x_stride = args.x.stride(0),
                                     .y = args.y.as<float>() + row * args.y.stride(0) + p * kPanelRows,
                                     .y_stride = args.y.stride(0),
                                     .cols = std::min(there * kPanelRows, n - p * kPanelRows),
                                     .bias = args.bias ? args.bias.as<float>() + p * kPanelRows : nullptr,
                                     .add = false,
                                     .ahead_lines = 0};
        kernel.run({.matmul = matmul,
                    .span_stride = args.x.rank == 3 ? args.x.stride(1) : kSpanOfBlocks,
                    .blocks = packed_blocks(packed_layout(args.format), args.weight)},
                   std::min(kChunkRows, m - row));
      }
    }
  });
}

}  // namespace ingot::kernels::cpu
