// Matmuls of many rows, for which the weight is rounded anew to int8 codes (quantized.h), for one instruction
// set: neither unpacking nor the weight's scales are left between the dot products of a span, but only the
// scales of x. Included behind round_anew-inl.h; the includer defines besides
//
//   kSpanRows, kSpanVectors   rows of x, and vectors of the weight's rows, of a tile

// Groups whose products with x words of 16 bits add up before they are widened.
template <int kMost>
constexpr int kWordGroupsOf = kSumsWords&& kMost <= kMostQuadWeight ? 2 : 1;

// sum + the products of the codes of so many groups of a row with x.
template <int kGroups>
INGOT_INLINE Ints add_dots(Ints sum, Ints first, Ints second, const std::uint8_t* x) {
  const Ints first_x = splat_word(x);
  if constexpr (kGroups == 1) return in_order(dot(sum, first, first_x));
  const Ints words = add_words(pair_products(first, first_x), pair_products(second, splat_word(x + 4)));
  return in_order(add_pairs(sum, words));
}

// R rows of x, ActivationBlocks, with V vectors of one span.
template <class Store, int R, int V>
INGOT_NOINLINE void byte_span_tile(const RowScaledMatmul& p, const std::uint8_t* x, float* y,
                                   std::int64_t blocks) {
  constexpr std::int64_t kVectorsPerPanel = kPanelRows / kLanes;
  constexpr int kGroups = kWordGroupsOf<Store::kMost>;
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
  const auto at = [&](int v) {
    return v / kVectorsPerPanel * panel_bytes + v % kVectorsPerPanel * 4 * kLanes;
  };
  const std::uint8_t* w = p.panel + kScaleBytes;
  for (std::int64_t block = 0; block < blocks; ++block, w += Store::kBlockBytes) {
    Ints dots[R][V];
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(base[r / 3] + (r % 3 + R) * stride);  // the next tile's, from L2
      const Ints start = shift_left(splat(activations(r)->negative_sum), Store::kZeroShift);
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v) dots[r][v] = start;
    }
    INGOT_UNROLL_ROWS
    for (int group = 0; group < 8; group += kGroups) {
      Ints codes[kGroups][V];
      INGOT_UNROLL_ROWS
      for (int g = 0; g < kGroups; ++g) {
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v) codes[g][v] = load(w + 64 * (group + g) + at(v));
      }
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) {
        const std::uint8_t* four = base[r / 3] + r % 3 * stride + 4 * group;
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v)
          dots[r][v] = add_dots<kGroups>(dots[r][v], codes[0][v], codes[kGroups - 1][v], four);
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
    const std::int64_t cols = p.cols - v * kLanes;
    if (cols <= 0) break;
    const Floats scale = load_all_floats(p.panel + at(v));
    const Floats bias = p.bias != nullptr ? load_floats(p.bias + v * kLanes, cols) : zero_floats();
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      float* to = y + r * p.y_stride + v * kLanes;
      store_floats(to, multiply_add(sum[r][v], scale, p.add ? load_floats(to, cols) : bias), cols);
    }
  }
}

template <class Store, int V>
void byte_span_rows(const RowScaledMatmul& p, std::int64_t rows, std::int64_t blocks) {
  std::int64_t at = 0;
  const auto tile = [&]<int R>() {
    byte_span_tile<Store, R, V>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, blocks);
    at += R;
  };
  while (rows - at >= kSpanRows) tile.template operator()<kSpanRows>();
  if constexpr (kSpanRows > 4) {
    if (rows - at >= 4) tile.template operator()<4>();
  }
  if (rows - at >= 2) tile.template operator()<2>();
  if (rows - at >= 1) tile.template operator()<1>();
}

// For codes up to kMost.
template <int kMost>
RequantizedKernel byte_span_kernel(PackedFormat format) {
  constexpr std::int64_t kVectorsPerPanel = kPanelRows / kLanes, kPanels = kSpanVectors / kVectorsPerPanel;
  static_assert(kSpanRows < 8 && kPanels >= 1 && kPanels <= 2);
  using Run = void (*)(const RequantizedMatmul&, std::int64_t);
  const auto matmul = []<PackedFormat kFormat>() -> Run {
    return [](const RequantizedMatmul& p, std::int64_t rows) {
      using Store = ByteStore<kMost>;
      multiply_anew<kFormat, Store, kPanels>(p, [&](const RowScaledMatmul& span, std::int64_t blocks) {
        if (span.panels == kPanels) return byte_span_rows<Store, kSpanVectors>(span, rows, blocks);
        byte_span_rows<Store, kVectorsPerPanel>(span, rows, blocks);
      });
    };
  };
  return {for_format<Run>(format, matmul), kPanels};
}
