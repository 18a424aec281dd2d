// Products of whole rows with one scale each (PackedFormat::w8a8), for one instruction set. Included behind
// quantized-inl.h, whose vectors it uses; the includer defines besides
//
//   kTileRows, kTileVectors   rows of x, and vectors of the weight's rows, whose sums the registers hold

// R rows of x with V vectors of kLanes rows of the weight. Asks for `lines` cache lines at `ahead` meanwhile.
template <int R, int V>
INGOT_NOINLINE void row_scaled_tile(const RowScaledProduct& p, const std::uint8_t* x, float* y,
                                    const std::uint8_t* ahead, std::int64_t lines) {
  constexpr PackedLayout kLayout = packed_layout(PackedFormat::w8a8);
  constexpr std::int64_t kHeader = kLayout.panel_header_bytes(), kVectorsPerPanel = kPanelRows / kLanes;
  const std::int64_t stride = p.x_stride, panel_bytes = p.panel_bytes;
  Ints dots[R][V];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    const std::int32_t sum = reinterpret_cast<const ActivationRow*>(x + r * stride)->negative_sum;
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v)
      dots[r][v] = kSignedBytes ? zero_ints() : shift_left(splat(sum), kLayout.zero_shift);
  }
  // As in panel_rows(): one base pointer for each three rows.
  constexpr int kBases = (R + 2) / 3;
  const std::uint8_t* base[kBases];
  INGOT_UNROLL_ROWS
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * stride + sizeof(ActivationRow);
    asm("" : "+r"(base[b]));
  }
  const std::uint8_t* w = p.panel + kHeader;
  const std::int64_t steps = (panel_bytes - kHeader) / static_cast<std::int64_t>(kLayout.step_bytes());
  const std::int64_t lines_per_step = (lines + steps - 1) / steps;
  for (std::int64_t s = 0; s < steps; ++s) {
    for (std::int64_t i = 0; i < lines_per_step; ++i, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
    for (std::int64_t group = 0; group < kLayout.step_cols() / 4; ++group, w += 64) {
      if constexpr (R <= 4) {
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; v += kVectorsPerPanel)
          _mm_prefetch(w + v / kVectorsPerPanel * panel_bytes + kPrefetchBytes, _MM_HINT_T0);
      }
      Ints codes[V];
      INGOT_UNROLL_ROWS
      for (int v = 0; v < V; ++v)
        codes[v] = load(w + v / kVectorsPerPanel * panel_bytes + v % kVectorsPerPanel * 4 * kLanes);
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) {
        const Ints a = splat_word(base[r / 3] + r % 3 * stride);
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v)
          dots[r][v] = kSignedBytes ? dot_signed(dots[r][v], codes[v], a) : dot(dots[r][v], codes[v], a);
      }
      INGOT_UNROLL_ROWS
      for (int b = 0; b < kBases; ++b) base[b] += 4;
    }
  }
  INGOT_UNROLL_ROWS
  for (int v = 0; v < V; ++v) {
    const std::int64_t cols = p.cols - v * kLanes;
    if (cols <= 0) break;
    const Floats scale =
        load_all_floats(p.panel + v / kVectorsPerPanel * panel_bytes + v % kVectorsPerPanel * 4 * kLanes);
    const Floats bias = p.bias != nullptr ? load_floats(p.bias + v * kLanes, cols) : zero_floats();
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r) {
      float* to = y + r * p.y_stride + v * kLanes;
      const float x_scale = reinterpret_cast<const ActivationRow*>(x + r * stride)->scale;
      const Floats both = multiply(scale, splat(x_scale)), sum = to_floats(dots[r][v]);
      store_floats(to, multiply_add(sum, both, p.add ? load_floats(to, cols) : bias), cols);
    }
  }
}

template <int V>
void row_scaled_product(const RowScaledProduct& p, std::int64_t rows) {
  const std::uint8_t* ahead = p.panel + p.panels * p.panel_bytes;
  const std::int64_t lines = (p.ahead_lines * kTileRows + rows - 1) / rows;
  std::int64_t at = 0;
  const auto tile = [&]<int R>() {
    row_scaled_tile<R, V>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, ahead, lines);
    ahead += lines * 64;
    at += R;
  };
  while (rows - at >= kTileRows) tile.template operator()<kTileRows>();
  if constexpr (kTileRows > 4) {
    if (rows - at >= 4) tile.template operator()<4>();
  }
  if (rows - at >= 2) tile.template operator()<2>();
  if (rows - at >= 1) tile.template operator()<1>();
}

void run_row_scaled_product(const RowScaledProduct& p, std::int64_t rows) {
  constexpr int kVectorsPerPanel = kPanelRows / kLanes;
  if (p.panels == 1) return row_scaled_product<kVectorsPerPanel>(p, rows);
  if constexpr (kTileVectors >= 2 * kVectorsPerPanel) {
    if (p.panels == 2) return row_scaled_product<2 * kVectorsPerPanel>(p, rows);
  }
  if constexpr (kTileVectors >= 3 * kVectorsPerPanel) row_scaled_product<3 * kVectorsPerPanel>(p, rows);
}

constexpr RowScaledKernel kRowScaledKernel{run_row_scaled_product, kTileVectors* kLanes / kPanelRows};
