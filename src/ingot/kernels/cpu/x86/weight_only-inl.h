// Matmuls with weights that are widened to f32, for one instruction set. The includer defines, in the
// namespace that this is included into:
//
//   kLanes             rows of a panel in one vector: 16 or 8
//   kMaxRows           rows of x that its registers hold at once
//   Ints, Floats       vectors of 32-bit lanes, and the operations below on them
//   CodeTable          16 values, in registers; look_up(table, codes) takes the low four bits of each
//   lane float8_values(v)   the f8e4m3 numbers in the low bytes of the lanes
//
// A lane of a vector of codes belongs to one row and holds four columns ("quad") of its block, 4-bit codes
// those of two quads.

template <PackedFormat kFormat>
struct Widener;

template <PackedFormat kFormat>
struct TableWidener {
  static constexpr std::int64_t kBlockBytes = 256;
  CodeTable table;
  INGOT_INLINE TableWidener() : table(kFormat == PackedFormat::nf4 ? kNf4Values : kE2m1Values) {}
  INGOT_INLINE static Ints load_quad(const std::uint8_t* block, int quad) {
    return shift_right(load(block + 64 * (quad % 4)), 4 * (quad / 4));
  }
  INGOT_INLINE Floats value(Ints codes, int position) const {
    return look_up(table, shift_right(codes, 8 * position));
  }
};

template <>
struct Widener<PackedFormat::nf4> : TableWidener<PackedFormat::nf4> {
  INGOT_INLINE Widener() {}  // clang gives a generated one no instruction set
};
template <>
struct Widener<PackedFormat::nvfp4> : TableWidener<PackedFormat::nvfp4> {
  INGOT_INLINE Widener() {}
};

template <>
struct Widener<PackedFormat::fp8> {
  static constexpr std::int64_t kBlockBytes = 512;
  INGOT_INLINE static Ints load_quad(const std::uint8_t* block, int quad) { return load(block + 64 * quad); }
  INGOT_INLINE Floats value(Ints codes, int position) const {
    return float8_values(shift_right(codes, 8 * position));
  }
};

// The scales of columns [16 · group, ...) of a step, or of all of it. `whole`: the panel's own.
template <PackedFormat kFormat>
INGOT_INLINE Floats scales_of(const std::uint8_t* step, std::int64_t row, std::int64_t group, Floats whole) {
  if constexpr (packed_layout(kFormat).scales == PackedScales::e4m3)
    return multiply(whole, float8_values(shift_right(load(step + 4 * row), static_cast<int>(8 * group))));
  return load_numbers(step + 4 * row);
}

// R rows of x with kLanes rows of the panel, from lane `row` on.
template <PackedFormat kFormat, int R>
INGOT_NOINLINE void float_panel_rows(const FloatPanelMatmul& p, const float* x, float* y, std::int64_t row) {
  constexpr PackedLayout kLayout = packed_layout(kFormat);
  constexpr std::int64_t kCols = kLayout.step_cols(), kHeader = kLayout.header_bytes(),
                         kGroupQuads = scale_columns(kFormat) / 4;
  const Widener<kFormat> widener;
  Floats sum[R];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) sum[r] = zero_floats();
  float padded[R * kCols];
  const std::uint8_t* step = p.panel + kLayout.panel_header_bytes();
  Floats whole = zero_floats();
  if constexpr (kLayout.panel_header_bytes() > 0) whole = load_numbers(p.panel + 4 * row);
  std::int64_t stride = p.x_stride;
  for (std::int64_t col = 0; col < p.k; col += kCols, step += kLayout.step_bytes()) {
    const float* from = x + col;
    if (p.k - col < kCols) {  // what x lacks of the last step counts as 0
      for (int r = 0; r < R; ++r) {
        for (std::int64_t i = 0; i < kCols; ++i)
          padded[r * kCols + i] = col + i < p.k ? x[r * p.x_stride + col + i] : 0.0F;
      }
      from = padded;
      stride = kCols;
    }
    for (std::int64_t at = 0; at < kCols / 4;) {
      const std::int64_t group = at / kGroupQuads;
      Floats even[R], odd[R];
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) even[r] = odd[r] = zero_floats();
      for (const std::int64_t end = at + kGroupQuads; at < end; ++at, from += 4) {
        const std::uint8_t* codes_at = step + kHeader + at / 8 * Widener<kFormat>::kBlockBytes + 4 * row;
        const Ints codes = Widener<kFormat>::load_quad(codes_at, static_cast<int>(at % 8));
        const Floats w0 = widener.value(codes, 0), w1 = widener.value(codes, 1);
        const Floats w2 = widener.value(codes, 2), w3 = widener.value(codes, 3);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) even[r] = multiply_add(splat(from[r * stride]), w0, even[r]);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) odd[r] = multiply_add(splat(from[r * stride + 1]), w1, odd[r]);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) even[r] = multiply_add(splat(from[r * stride + 2]), w2, even[r]);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) odd[r] = multiply_add(splat(from[r * stride + 3]), w3, odd[r]);
      }
      const Floats scale = scales_of<kFormat>(step, row, group, whole);
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) sum[r] = multiply_add(add(even[r], odd[r]), scale, sum[r]);
    }
  }
  const std::int64_t cols = p.cols - row;
  const Floats bias = p.bias != nullptr ? load_floats(p.bias + row, cols) : zero_floats();
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r)
    store_floats(y + r * p.y_stride + row, p.bias != nullptr ? add(sum[r], bias) : sum[r], cols);
}

template <PackedFormat kFormat, int R>
INGOT_INLINE void float_panel_tile(const FloatPanelMatmul& p, std::int64_t at) {
  for (std::int64_t row = 0; row < p.cols; row += kLanes)
    float_panel_rows<kFormat, R>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, row);
}

template <PackedFormat kFormat>
void float_panel_matmul(const FloatPanelMatmul& p, std::int64_t rows) {
  std::int64_t at = 0;
  for (; rows - at >= kMaxRows; at += kMaxRows) float_panel_tile<kFormat, kMaxRows>(p, at);
  if constexpr (kMaxRows > 4) {
    for (; rows - at >= 4; at += 4) float_panel_tile<kFormat, 4>(p, at);
  }
  if (rows - at >= 2) float_panel_tile<kFormat, 2>(p, at), at += 2;
  if (rows - at >= 1) float_panel_tile<kFormat, 1>(p, at);
}

// The same for weights that are f32: nothing stands between the loads and the sums. Several vectors of
// columns share what is read of x: a load for each multiply-add would take as long as that does.
constexpr std::int64_t kPanelVectors = kPanelRows / kLanes;  // of a panel's columns
constexpr int kMaxFloatRows = static_cast<int>(f32_tile_rows(kLanes));
constexpr int kMaxFewRows = static_cast<int>(kFewFloatRows);

// R rows of x with P panels. kAhead: few rows are bound by reading the panels, so these are fetched on the
// way, kDistance columns ahead and at last those of `p.next`.
template <int R, int P, bool kAhead>
INGOT_NOINLINE void f32_panel_rows(const FloatPanelMatmul& p, const float* x, float* y) {
  constexpr int kVectors = static_cast<int>(P * kPanelVectors);
  constexpr std::int64_t kDistance = 32;  // 2 KiB of each panel
  Floats sum[R][kVectors];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = v * kLanes;
      sum[r][v] = p.add ? load_floats(y + r * p.y_stride + at, p.cols - at) : zero_floats();
    }
  }
  // One base pointer for each three rows, hidden from the optimizer, which would otherwise keep a pointer per
  // row and spill them all.
  constexpr int kBases = (R + 2) / 3;
  const float* base[kBases];
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * p.x_stride;
    asm("" : "+r"(base[b]));
  }
  const std::int64_t stride = p.x_stride, panel_floats = p.panel_bytes / 4;
  const auto* w = reinterpret_cast<const float*>(p.panel);
  const std::int64_t last = kAhead && p.next != nullptr && p.k > kDistance ? kDistance : 0;
  const float* ahead = w + kDistance * kPanelRows;
  for (std::int64_t left = p.k; left > 0;) {
    const std::int64_t end = left > last ? last : 0;  // of this piece, counted from the end
    INGOT_UNROLL_BY_FOUR
    for (; left > end; --left, w += kPanelRows, ahead += kPanelRows) {
      if constexpr (kAhead) {
        INGOT_UNROLL_ROWS
        for (int panel = 0; panel < P; ++panel) __builtin_prefetch(ahead + panel * panel_floats);
      }
      Floats value[kVectors];
      INGOT_UNROLL_ROWS
      for (int v = 0; v < kVectors; ++v)
        value[v] = load_numbers(w + v / kPanelVectors * panel_floats + v % kPanelVectors * kLanes);
      INGOT_UNROLL_ROWS
      for (int r = 0; r < R; ++r) {
        const Floats from = splat(base[r / 3][r % 3 * stride]);
        INGOT_UNROLL_ROWS
        for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(from, value[v], sum[r][v]);
      }
      INGOT_UNROLL_ROWS
      for (int b = 0; b < kBases; ++b) ++base[b];
    }
    ahead = reinterpret_cast<const float*>(p.next);
  }
  INGOT_UNROLL_ROWS
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t at = v * kLanes, cols = p.cols - at;
    const Floats bias = p.bias != nullptr ? load_floats(p.bias + at, cols) : zero_floats();
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r)
      store_floats(y + r * p.y_stride + at, p.bias != nullptr ? add(sum[r][v], bias) : sum[r][v], cols);
  }
}

// From 1 to R rows.
template <int R, int P, bool kAhead>
INGOT_INLINE void f32_panel_tile(const FloatPanelMatmul& p, const float* x, float* y, std::int64_t rows) {
  if (rows == R) return f32_panel_rows<R, P, kAhead>(p, x, y);
  if constexpr (R > 1) f32_panel_tile<R - 1, P, kAhead>(p, x, y, rows);
}

// Tiles of rows, of about one size, each with all panels: what is read of x stays in L1, and the panels come
// from L2, one after the other; what comes after them is fetched there meanwhile.
void f32_many_rows(const FloatPanelMatmul& p, std::int64_t rows) {
  constexpr int kPanels = static_cast<int>(f32_panels(kLanes, kMaxFloatRows));
  const std::int64_t tiles = (rows + kMaxFloatRows - 1) / kMaxFloatRows;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t at = rows * tile / tiles, count = rows * (tile + 1) / tiles - at;
    const float* x = p.x + at * p.x_stride;
    for (std::int64_t panel = 0; panel < p.panels; panel += kPanels) {
      const std::int64_t there = std::min<std::int64_t>(kPanels, p.panels - panel);
      for (std::int64_t line = p.k * tile / tiles; p.next != nullptr && line < p.k * (tile + 1) / tiles;
           ++line) {
        for (std::int64_t i = panel; i < panel + there; ++i)
          __builtin_prefetch(p.next + i * p.panel_bytes + line * 64, 0, 2);  // a column
      }
      FloatPanelMatmul part = panel_of(p, panel);
      float* y = part.y + at * p.y_stride;
      part.cols = p.cols - panel * kPanelRows;
      if (there == kPanels) {
        f32_panel_tile<kMaxFloatRows, kPanels, false>(part, x, y, count);
      } else {
        f32_panel_tile<kMaxFloatRows, 1, false>(part, x, y, count);
      }
    }
  }
}

// Up to kMaxFewRows rows with as many panels as f32_panels() says.
INGOT_INLINE void f32_few_rows(const FloatPanelMatmul& p, std::int64_t rows) {
  if (rows == 1) return f32_panel_rows<1, f32_panels(kLanes, 1), true>(p, p.x, p.y);
  if (rows == 2) return f32_panel_rows<2, f32_panels(kLanes, 2), true>(p, p.x, p.y);
  f32_panel_tile<kMaxFewRows, f32_panels(kLanes, kMaxFewRows), true>(p, p.x, p.y, rows);
}

void f32_panel_matmul(const FloatPanelMatmul& p, std::int64_t rows) {
  const bool few = rows <= kMaxFewRows && p.panels == f32_panels(kLanes, rows);
  few ? f32_few_rows(p, rows) : f32_many_rows(p, rows);
}

void run(const WeightOnlyMatmulArgs& args, Stream) {
  if (args.format == PackedFormat::f32) return multiply_f32_panels(args, kLanes, f32_panel_matmul);
  multiply_float_panels(args, args.format == PackedFormat::nf4   ? float_panel_matmul<PackedFormat::nf4>
                              : args.format == PackedFormat::fp8 ? float_panel_matmul<PackedFormat::fp8>
                                                                 : float_panel_matmul<PackedFormat::nvfp4>);
}
