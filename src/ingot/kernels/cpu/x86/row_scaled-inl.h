// Matmuls of rows with one scale each, for one instruction set. Included behind quantized-inl.h, whose
// vectors it uses; the includer defines besides
//
//   kTileRows, kTileVectors   rows of x, and vectors of the weight's rows, whose sums the registers hold

// What rows and panels hold, behind 64 bytes with their scales: groups of 64 bytes, a word of 32 bits for
// each of a panel's 16 rows; and where a sum of whole numbers starts.
struct ByteCodes {  // of whole rows: PackedFormat::w8a8
  static constexpr int kRows = kTileRows;
  static INGOT_INLINE Ints start(const std::uint8_t* x) {
    const std::int32_t sum = reinterpret_cast<const ActivationRow*>(x)->negative_sum;
    return kSignedBytes ? zero_ints() : shift_left(splat(sum), packed_layout(PackedFormat::w8a8).zero_shift);
  }
  static INGOT_INLINE Ints add_dot(Ints sum, Ints codes, Ints x) {
    return kSignedBytes ? dot_signed(sum, codes, x) : dot(sum, codes, x);
  }
};

// R rows of x with V vectors of kLanes rows of the weight. Asks for `lines` cache lines at `ahead` meanwhile.
template <class Codes, int R, int V>
INGOT_NOINLINE void row_scaled_tile(const RowScaledMatmul& p, const std::uint8_t* x, float* y,
                                    const std::uint8_t* ahead, std::int64_t lines) {
  constexpr std::int64_t kVectorsPerPanel = kPanelRows / kLanes, kStepGroups = 16;
  const std::int64_t stride = p.x_stride, panel_bytes = p.panel_bytes;
  Ints dots[R][V];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) dots[r][v] = Codes::start(x + r * stride);
  }
  // As in panel_rows(): one base pointer for each three rows.
  constexpr int kBases = (R + 2) / 3;
  const std::uint8_t* base[kBases];
  INGOT_UNROLL_ROWS
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * stride + kScaleBytes;
    asm("" : "+r"(base[b]));
  }
  const std::uint8_t* w = p.panel + kScaleBytes;
  const std::int64_t steps = (panel_bytes - kScaleBytes) / (64 * kStepGroups);
  const std::int64_t lines_per_step = (lines + steps - 1) / steps;
  for (std::int64_t s = 0; s < steps; ++s) {
    for (std::int64_t i = 0; i < lines_per_step; ++i, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
    for (std::int64_t group = 0; group < kStepGroups; ++group, w += 64) {
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
        for (int v = 0; v < V; ++v) dots[r][v] = Codes::add_dot(dots[r][v], codes[v], a);
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
      const float x_scale = *reinterpret_cast<const float*>(x + r * stride);
      const Floats both = multiply(scale, splat(x_scale)), sum = to_floats(dots[r][v]);
      store_floats(to, multiply_add(sum, both, p.add ? load_floats(to, cols) : bias), cols);
    }
  }
}

template <class Codes, int V>
void row_scaled_panels(const RowScaledMatmul& p, std::int64_t rows) {
  const std::uint8_t* ahead = p.panel + p.panels * p.panel_bytes;
  constexpr int kRows = Codes::kRows;
  const std::int64_t lines = (p.ahead_lines * kRows + rows - 1) / rows;
  std::int64_t at = 0;
  const auto tile = [&]<int R>() {
    row_scaled_tile<Codes, R, V>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, ahead, lines);
    ahead += lines * 64;
    at += R;
  };
  while (rows - at >= kRows) tile.template operator()<kRows>();
  if constexpr (kRows > 4) {
    if (rows - at >= 4) tile.template operator()<4>();
  }
  if (rows - at >= 2) tile.template operator()<2>();
  if (rows - at >= 1) tile.template operator()<1>();
}

template <class Codes>
void run_row_scaled_panels(const RowScaledMatmul& p, std::int64_t rows) {
  constexpr int kVectorsPerPanel = kPanelRows / kLanes;
  if (p.panels == 1) return row_scaled_panels<Codes, kVectorsPerPanel>(p, rows);
  if constexpr (kTileVectors >= 2 * kVectorsPerPanel) {
    if (p.panels == 2) return row_scaled_panels<Codes, 2 * kVectorsPerPanel>(p, rows);
  }
  if constexpr (kTileVectors >= 3 * kVectorsPerPanel) row_scaled_panels<Codes, 3 * kVectorsPerPanel>(p, rows);
}

constexpr RowScaledKernel kRowScaledKernel{run_row_scaled_panels<ByteCodes>,
                                           kTileVectors* kLanes / kPanelRows};
