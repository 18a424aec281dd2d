// Matmuls with packed weights, for one instruction set. The includer defines, in the namespace that this is
// included into:
//
//   kLanes         rows of a panel in one vector: 16 or 8
//   kMaxRows       rows of x that its registers hold at once
//   kPairRows      those with two panels at once, where a vector holds all rows of one; else 0
//   kSignedBytes   whether dot() of 8-bit codes takes them signed (where an unsigned one would saturate)
//   kSumsWords     whether dot() is add_pairs(sum, pair_products(codes, x)), with the sums of two products in
//                  words of 16 bits; there add_words() adds those of several groups up. in_order(sum) is the
//                  sum, where the optimizer must not add in another order
//   Ints, Floats   vectors of 32-bit lanes, and the operations below on them
//
// `row` is the first of the panel's rows that the vectors stand for.

// Of the scales before the codes: of a row of x, and of the 16 rows of a panel (row_scaled-inl.h).
constexpr std::int64_t kScaleBytes = 64;

template <PackedFormat kFormat>
struct Decoder {
  static constexpr PackedLayout kLayout = packed_layout(kFormat);
  static constexpr bool kHalves = kLayout.scales == PackedScales::super_halves;
  static constexpr bool kHasMin = kLayout.zero_shift < 0;
  static constexpr bool kHasTable = kLayout.table != PackedTable::none;
  static constexpr bool kSigned = kSignedBytes && kLayout.has_wide_codes();
  // Groups whose products fit a word of 16 bits together: two of a code and 127 from each.
  static constexpr int kMostCode = (1 << (kLayout.low_bits + kLayout.high_bits)) - 1;
  static constexpr int kWordGroups =
      kSumsWords && !kLayout.has_wide_codes() ? 32767 / (2 * 127 * kMostCode) : 1;
  static constexpr std::int64_t kHeader = static_cast<std::int64_t>(kLayout.header_bytes());
  static constexpr std::int64_t kLow = static_cast<std::int64_t>(kLayout.low_block_bytes());
  static constexpr std::int64_t kHigh = static_cast<std::int64_t>(kLayout.high_block_bytes());
  static constexpr std::int64_t kHighAt = kHeader + kLayout.step_blocks * kLow;

  alignas(16) static constexpr std::array<std::uint8_t, 16> kTable = packed_table(kLayout.table);

  const std::uint8_t* step;
  std::int64_t row;
  Floats d, dmin;
  Ints table;

  Decoder() = default;
  INGOT_INLINE Decoder(const std::uint8_t* step_, std::int64_t row_) : step(step_), row(row_) {
    if constexpr (kHasTable)
      table = load_table(kLayout.table == PackedTable::header ? step + kTableAt : kTable.data());
    if constexpr (kLayout.scales == PackedScales::super_min || kHalves) d = load_halves(step + 2 * row);
    if constexpr (kLayout.table == PackedTable::header) d = multiply(d, splat_float(step + kUnitAt));
    if constexpr (kLayout.scales == PackedScales::super_min) dmin = load_halves(step + 32 + 2 * row);
    if constexpr (kLayout.scales == PackedScales::group_zero) {
      d = load_halves(step + 2 * row);
      dmin = multiply(d, load_unsigned_bytes(step + 32 + row));
    }
  }
  INGOT_INLINE Floats scale(std::int64_t block, std::int64_t half) const {
    if constexpr (kLayout.scales == PackedScales::group_zero) return d;
    if constexpr (kLayout.scales == PackedScales::flat) return load_halves(step + 32 * block + 2 * row);
    if constexpr (kLayout.scales == PackedScales::flat_min) return load_halves(step + 64 * block + 2 * row);
    if constexpr (kLayout.scales == PackedScales::super_min)
      return multiply(d, load_unsigned_bytes(step + 64 + 16 * block + row));
    return multiply(d, load_signed_bytes(step + 64 + 16 * (2 * block + half) + row));
  }
  // sum + minimum · x
  INGOT_INLINE Floats add_minimum(std::int64_t block, Floats minimum, Floats x, Floats sum) const {
    (void)block;
    if constexpr (kLayout.scales == PackedScales::flat_min) return multiply_add(minimum, x, sum);
    return negative_multiply_add(minimum, x, sum);
  }
  INGOT_INLINE Floats minimum(std::int64_t block) const {
    if constexpr (kLayout.scales == PackedScales::group_zero) return dmin;
    if constexpr (kLayout.scales == PackedScales::flat_min)
      return load_halves(step + 64 * block + 32 + 2 * row);
    return multiply(dmin, load_unsigned_bytes(step + 64 + 16 * (kLayout.step_blocks + block) + row));
  }
  // Codes of four columns (`group` of the block) for each row.
  INGOT_INLINE Ints codes(std::int64_t block, int group) const {
    const std::uint8_t* low = step + kHeader + block * kLow + 4 * row;
    if constexpr (kLayout.low_bits == 8) return load(low + 64 * group);
    if constexpr (kLayout.low_bits == 2)
      return bits_and(shift_right(load(low + 64 * (group % 2)), 2 * (group / 2)), splat_byte(3));
    Ints code = load(low + 64 * (group % 4));
    if (group >= 4) code = shift_right(code, 4);
    code = bits_and(code, splat_byte(15));
    if constexpr (kHasTable) return look_up(table, code);
    if constexpr (kLayout.high_bits == 1) {
      const Ints high = load(step + kHighAt + block * kHigh + 4 * row);
      const Ints moved = group <= 4 ? shift_left(high, 4 - group) : shift_right(high, group - 4);
      code = or_masked(code, moved, splat_byte(16));
    }
    if constexpr (kLayout.high_bits == 2) {
      const Ints high = load(step + kHighAt + block * kHigh + group / 4 * 64 + 4 * row);
      const int position = 2 * (group % 4);
      const Ints moved = position <= 4 ? shift_left(high, 4 - position) : shift_right(high, position - 4);
      code = or_masked(code, moved, splat_byte(48));
    }
    return code;
  }
};

// Asks for what comes kPrefetchBytes after a block: with few rows memory is the limit, and the processor's
// own prefetching loses its way where a step has its high bits apart. Panels lie one behind the other, so
// this runs on into the next one.
constexpr std::int64_t kPrefetchBytes = 4096;
template <PackedFormat kFormat>
INGOT_INLINE void prefetch_ahead(const std::uint8_t* step, std::int64_t block) {
  constexpr std::int64_t kShare =
      static_cast<std::int64_t>(packed_layout(kFormat).step_bytes()) / packed_layout(kFormat).step_blocks;
  const std::uint8_t* from = step + kPrefetchBytes + block * kShare;
  for (std::int64_t at = 0; at < kShare; at += 64) __builtin_prefetch(from + at);
}

// Asks for what is wanted after some tiles of many rows, in L2: a share with each tile, a few lines with each
// of its blocks. All lines of a share at once would wait for one another.
struct Ahead {
  const std::uint8_t* at;
  std::int64_t share, left = 0;  // lines

  Ahead(const std::uint8_t* at_, std::int64_t bytes, std::int64_t tiles)
      : at(at_), share((bytes / 64 + tiles - 1) / tiles) {}
  INGOT_INLINE void next_share() { left = share; }
  INGOT_INLINE std::int64_t lines_of(std::int64_t blocks) const { return (share + blocks - 1) / blocks; }
  INGOT_INLINE void next_block(std::int64_t lines) {
    for (std::int64_t i = 0; i < lines && left > 0; ++i, --left, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// R rows of x with kLanes rows of each of V panels. Two panels share what is read of x: a load for each of
// the dot products, besides those of the scales, would take longer than they do.
template <PackedFormat kFormat, int R, int V>
INGOT_NOINLINE void panel_rows(const PanelMatmul& p, const std::uint8_t* x, float* y, std::int64_t row,
                               Ahead* ahead) {
  const std::int64_t panel_bytes = p.panel_bytes;
  using D = Decoder<kFormat>;
  constexpr PackedLayout kLayout = D::kLayout;
  constexpr int kParts = D::kHalves ? 2 : 1, kGroups = 8 / kParts;
  constexpr int kAtOnce = D::kWordGroups < kGroups ? D::kWordGroups : kGroups;
  Floats sum[R][V];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) {
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) {
      const std::int64_t at = row + v * kPanelRows;
      sum[r][v] = V > 1 && p.add ? load_floats(y + r * p.y_stride + at, p.cols - at) : zero_floats();
    }
  }
  // One base pointer for each three rows, hidden from the optimizer, which would otherwise keep a pointer per
  // row and spill them all.
  constexpr int kBases = (R + 2) / 3;
  const std::uint8_t* base[kBases];
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * p.x_stride;
    asm("" : "+r"(base[b]));
  }
  const std::int64_t stride = p.x_stride;
  const auto activations = [&](int r) {
    return reinterpret_cast<const ActivationBlock*>(base[r / 3] + r % 3 * stride);
  };
  const std::uint8_t* step = p.panel;
  const std::int64_t lines = ahead != nullptr ? ahead->lines_of(p.steps * kLayout.step_blocks) : 0;
  for (std::int64_t s = 0; s < p.steps; ++s, step += kLayout.step_bytes()) {
    D decoders[V];
    INGOT_UNROLL_ROWS
    for (int v = 0; v < V; ++v) decoders[v] = D(step + v * panel_bytes, row);
    for (std::int64_t block = 0; block < kLayout.step_blocks; ++block) {
      if constexpr (R * V <= 8) {
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v) prefetch_ahead<kFormat>(step + v * panel_bytes, block);
      }
      if (ahead != nullptr) ahead->next_block(lines);
      INGOT_UNROLL_ROWS
      for (int part = 0; part < kParts; ++part) {
        [[maybe_unused]] Ints words[R][V];
        Ints dots[R][V];
        const auto start = [&](int r) {
          if constexpr (D::kHasMin || D::kSigned) return zero_ints();
          const ActivationBlock* a = activations(r);
          return shift_left(
              splat(D::kHalves ? a->negative_half_sums[static_cast<std::size_t>(part)] : a->negative_sum),
              kLayout.zero_shift);
        };
        INGOT_UNROLL_ROWS
        for (int g = 0; g < kGroups; ++g) {
          const int group = part * kGroups + g;
          Ints codes[V];
          INGOT_UNROLL_ROWS
          for (int v = 0; v < V; ++v) codes[v] = decoders[v].codes(block, group);
          INGOT_UNROLL_ROWS
          for (int r = 0; r < R; ++r) {
            const Ints a = splat_word(base[r / 3] + r % 3 * stride + 4 * group);
            INGOT_UNROLL_ROWS
            for (int v = 0; v < V; ++v) {
              if constexpr (kAtOnce > 1) {
                const Ints products = pair_products(codes[v], a);
                words[r][v] = g % kAtOnce == 0 ? products : add_words(words[r][v], products);
                if (g % kAtOnce == kAtOnce - 1)
                  dots[r][v] = add_pairs(g < kAtOnce ? start(r) : dots[r][v], words[r][v]);
              } else {
                const Ints sum = g == 0 ? start(r) : dots[r][v];
                dots[r][v] = D::kSigned ? dot_signed(sum, codes[v], a) : dot(sum, codes[v], a);
              }
            }
          }
        }
        Floats scale[V];
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v) scale[v] = decoders[v].scale(block, part);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) {
          const Floats x_scale = splat(activations(r)->scale);
          INGOT_UNROLL_ROWS
          for (int v = 0; v < V; ++v)
            sum[r][v] = multiply_add(to_floats(dots[r][v]), multiply(scale[v], x_scale), sum[r][v]);
        }
      }
      if constexpr (D::kHasMin) {
        Floats minimum[V];
        INGOT_UNROLL_ROWS
        for (int v = 0; v < V; ++v) minimum[v] = decoders[v].minimum(block);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) {
          const Floats x_sum = splat(activations(r)->scaled_sum);
          INGOT_UNROLL_ROWS
          for (int v = 0; v < V; ++v)
            sum[r][v] = decoders[v].add_minimum(block, minimum[v], x_sum, sum[r][v]);
        }
      }
      INGOT_UNROLL_ROWS
      for (int b = 0; b < kBases; ++b) base[b] += sizeof(ActivationBlock);
    }
  }
  INGOT_UNROLL_ROWS
  for (int v = 0; v < V; ++v) {
    const std::int64_t at = row + v * kPanelRows, cols = p.cols - at;
    const Floats bias = p.bias != nullptr ? load_floats(p.bias + at, cols) : zero_floats();
    INGOT_UNROLL_ROWS
    for (int r = 0; r < R; ++r)
      store_floats(y + r * p.y_stride + at, p.bias != nullptr ? add(sum[r][v], bias) : sum[r][v], cols);
  }
}

template <PackedFormat kFormat, int R>
INGOT_INLINE void panel_tile(const PanelMatmul& p, std::int64_t at, Ahead* ahead = nullptr) {
  for (std::int64_t row = 0; row < p.cols; row += kLanes)
    panel_rows<kFormat, R, 1>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, row, ahead);
}

// Rows [at, rows) of x with one panel.
template <PackedFormat kFormat>
void single_panel_matmul(const PanelMatmul& p, std::int64_t at, std::int64_t rows) {
  const std::int64_t tiles = (rows - at) / kMaxRows;
  Ahead ahead(p.panel + p.panel_bytes, p.next ? p.panel_bytes : 0, tiles > 0 ? tiles : 1);
  for (; rows - at >= kMaxRows; at += kMaxRows) {
    ahead.next_share();
    panel_tile<kFormat, kMaxRows>(p, at, &ahead);
  }
  if constexpr (kMaxRows > 8) {
    if (rows - at >= 8) panel_tile<kFormat, 8>(p, at), at += 8;
  }
  if constexpr (kMaxRows > 4) {
    if (rows - at >= 4) panel_tile<kFormat, 4>(p, at), at += 4;
  }
  if (rows - at >= 2) panel_tile<kFormat, 2>(p, at), at += 2;
  if (rows - at >= 1) panel_tile<kFormat, 1>(p, at);
}

// Tiles of R rows with both panels, piece by piece of their columns: a piece of the panels is in L1 for all
// rows. Sums wait in y meanwhile, so that each is added up in the order of its columns. Returns how many rows
// are done.
template <PackedFormat kFormat, int R>
std::int64_t panel_pair_matmul(const PanelMatmul& p, std::int64_t rows) {
  constexpr std::int64_t kPieceBytes = 18 * 1024;  // of the 32 or 48 KiB that a core has
  constexpr PackedLayout kLayout = packed_layout(kFormat);
  constexpr auto kStepBytes = static_cast<std::int64_t>(kLayout.step_bytes());
  constexpr std::int64_t kMostSteps = 2 * kStepBytes < kPieceBytes ? kPieceBytes / (2 * kStepBytes) : 1;
  constexpr auto kStepInput = kLayout.step_blocks * static_cast<std::int64_t>(sizeof(ActivationBlock));
  const std::int64_t pieces = (p.steps + kMostSteps - 1) / kMostSteps;
  const std::int64_t steps = (p.steps + pieces - 1) / pieces, tiles = rows / R;
  Ahead ahead(p.panel + 2 * p.panel_bytes, p.next ? 2 * p.panel_bytes : 0, pieces * tiles);
  for (std::int64_t step = 0; step < p.steps; step += steps) {
    PanelMatmul piece = p;
    piece.panel += step * kStepBytes;
    piece.x += step * kStepInput;
    piece.steps = p.steps - step < steps ? p.steps - step : steps;
    piece.add = step > 0;
    if (step + steps < p.steps) piece.bias = nullptr;
    for (std::int64_t at = 0; at < tiles * R; at += R) {
      ahead.next_share();
      panel_rows<kFormat, R, 2>(piece, piece.x + at * p.x_stride, p.y + at * p.y_stride, 0, &ahead);
    }
  }
  return tiles * R;
}

template <PackedFormat kFormat>
void panel_matmul(const PanelMatmul& p, std::int64_t rows) {
  std::int64_t at = 0;
  if constexpr (kPairRows > 0) {
    if (p.panels == 2 && rows >= kPairRows) at = panel_pair_matmul<kFormat, kPairRows>(p, rows);
  }
  for (std::int64_t panel = 0; panel < p.panels && at < rows; ++panel)
    single_panel_matmul<kFormat>(panel_of(p, panel), at, rows);
}

// pick.operator()<format>(), or null for the formats of other kernels.
template <class Kernel = PanelKernel, class Pick>
Kernel for_format(PackedFormat format, Pick&& pick) {
  switch (format) {
    case PackedFormat::q8_0:
      return pick.template operator()<PackedFormat::q8_0>();
    case PackedFormat::q4_0:
      return pick.template operator()<PackedFormat::q4_0>();
    case PackedFormat::q4_1:
      return pick.template operator()<PackedFormat::q4_1>();
    case PackedFormat::q5_0:
      return pick.template operator()<PackedFormat::q5_0>();
    case PackedFormat::q5_1:
      return pick.template operator()<PackedFormat::q5_1>();
    case PackedFormat::q4_k:
      return pick.template operator()<PackedFormat::q4_k>();
    case PackedFormat::q5_k:
      return pick.template operator()<PackedFormat::q5_k>();
    case PackedFormat::q6_k:
      return pick.template operator()<PackedFormat::q6_k>();
    case PackedFormat::q4_g32:
      return pick.template operator()<PackedFormat::q4_g32>();
    case PackedFormat::q4_g64:
      return pick.template operator()<PackedFormat::q4_g64>();
    case PackedFormat::q4_g128:
      return pick.template operator()<PackedFormat::q4_g128>();
    case PackedFormat::q2_g256:
      return pick.template operator()<PackedFormat::q2_g256>();
    case PackedFormat::iq4_nl:
      return pick.template operator()<PackedFormat::iq4_nl>();
    case PackedFormat::mxfp4:
      return pick.template operator()<PackedFormat::mxfp4>();
    case PackedFormat::codebook:
      return pick.template operator()<PackedFormat::codebook>();
    case PackedFormat::nf4:
    case PackedFormat::fp8:
    case PackedFormat::f32:
    case PackedFormat::w8a8:
    case PackedFormat::nvfp4:
      break;
  }
  return nullptr;
}

[[maybe_unused]] PanelKernel panel_kernel(PackedFormat format) {
  return for_format(format, []<PackedFormat kFormat>() -> PanelKernel { return panel_matmul<kFormat>; });
}
