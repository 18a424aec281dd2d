// Matmuls of many rows, for which the weight is rounded anew to int8 codes (quantized.h), for one instruction
// set: neither unpacking nor the weight's scales are left between the dot products of a span, but only the
// scales of x. Included behind row_scaled-inl.h, with round_anew-inl.h; kPairRows rows and two panels have
// their sums in registers.

#include "ingot/kernels/cpu/x86/round_anew-inl.h"

// R rows of x, ActivationBlocks, with V panels of one span.
template <int R, int V>
INGOT_NOINLINE void byte_span_tile(const RowScaledMatmul& p, const std::uint8_t* x, float* y,
                                   std::int64_t blocks) {
  Floats sum[R][V];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) sum[r][v] = zero_floats();
  }
  // As in panel_rows(): one base pointer for each three rows.
  constexpr int kBases = (R + 2) / 3;
  const std::int64_t stride = p.x_stride, panel_bytes = p.panel_bytes;
  const std::uint8_t* base[kBases];
  INGOT_UNROLL_ROWS
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * stride;
    asm("" : "+r"(base[b]));
  }
  const auto activations = [&](int r) {
    return reinterpret_cast<const ActivationBlock*>(base[r / 3] + r % 3 * stride);
  };
  const std::uint8_t* w = p.panel + kScaleBytes;
  for (std::int64_t block = 0; block < blocks; ++block, w += ByteStore::kBlockBytes) {
    Ints dots[R][V];
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(base[r / 3] + (r % 3 + R) * stride);                 // the next tile's, from L2
      const Ints start = shift_left(splat(activations(r)->negative_sum), 7);  // codes have 128 added
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v) dots[r][v] = start;
    }
    INGOT_UNROLL_ROWS
    for (int group = 0; group < 8; ++group) {
      Ints codes[V];
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v) codes[v] = load(w + 64 * group + v * panel_bytes);
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) {
        const Ints a = splat_word(base[r / 3] + r % 3 * stride + 4 * group);
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v) dots[r][v] = dot(dots[r][v], codes[v], a);
      }
    }
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      const Floats scale = splat(activations(r)->scale);
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v) sum[r][v] = multiply_add(to_floats(dots[r][v]), scale, sum[r][v]);
    }
    INGOT_UNROLL_ROWS
    for (int b = 0; b < kBases; ++b) base[b] += sizeof(ActivationBlock);
  }
  INGOT_UNROLL_ROWS
  for (int v = 0; v < V; ++v) {
    const std::int64_t cols = p.cols - v * kPanelRows;
    const Floats scale = load_all_floats(p.panel + v * panel_bytes);
    const Floats bias = p.bias != nullptr ? load_floats(p.bias + v * kPanelRows, cols) : zero_floats();
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      float* to = y + r * p.y_stride + v * kPanelRows;
      store_floats(to, multiply_add(sum[r][v], scale, p.add ? load_floats(to, cols) : bias), cols);
    }
  }
}

template <int V>
void byte_span_rows(const RowScaledMatmul& p, std::int64_t rows, std::int64_t blocks) {
  std::int64_t at = 0;
  const auto tile = [&]<int R>() {
    byte_span_tile<R, V>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, blocks);
    at += R;
  };
  while (rows - at >= kPairRows) tile.template operator()<kPairRows>();
  if (rows - at >= 4) tile.template operator()<4>();
  if (rows - at >= 2) tile.template operator()<2>();
  if (rows - at >= 1) tile.template operator()<1>();
}

RequantizedKernel byte_span_kernel(PackedFormat format) {
  static_assert(kLanes == kPanelRows && kPairRows < 8);
  using Run = void (*)(const RequantizedMatmul&, std::int64_t);
  const auto matmul = []<PackedFormat kFormat>() -> Run {
    return [](const RequantizedMatmul& p, std::int64_t rows) {
      multiply_anew<kFormat, ByteStore, 2>(p, [&](const RowScaledMatmul& span, std::int64_t blocks) {
        span.panels == 2 ? byte_span_rows<2>(span, rows, blocks) : byte_span_rows<1>(span, rows, blocks);
      });
    };
  };
  return {for_format<Run>(format, matmul), 2};
}
