// Products with packed weights, for one instruction set. The includer defines, in the namespace that this is
// included into:
//
//   kLanes         rows of a panel in one vector: 16 or 8
//   kMaxRows       rows of x that its registers hold at once
//   kSignedBytes   whether dot() of 8-bit codes takes them signed (where an unsigned one would saturate)
//   Ints, Floats   vectors of 32-bit lanes, and the operations below on them
//
// `row` is the first of the panel's rows that the vectors stand for.

template <PackedFormat kFormat>
struct Decoder {
  static constexpr PackedLayout kLayout = packed_layout(kFormat);
  static constexpr bool kHalves = kLayout.scales == PackedScales::super_halves;
  static constexpr bool kHasMin = kLayout.zero_shift < 0;
  static constexpr bool kSigned = kSignedBytes && kLayout.low_bits == 8;
  static constexpr std::int64_t kHeader = static_cast<std::int64_t>(kLayout.header_bytes());
  static constexpr std::int64_t kLow = static_cast<std::int64_t>(kLayout.low_block_bytes());
  static constexpr std::int64_t kHigh = static_cast<std::int64_t>(kLayout.high_block_bytes());
  static constexpr std::int64_t kHighAt = kHeader + kLayout.step_blocks * kLow;

  const std::uint8_t* step;
  std::int64_t row;
  Floats d, dmin;

  INGOT_INLINE Decoder(const std::uint8_t* step_, std::int64_t row_) : step(step_), row(row_) {
    if constexpr (kLayout.scales == PackedScales::super_min || kHalves) d = load_halves(step + 2 * row);
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
    if constexpr (kLayout.high_bits == 1) {
      const Ints high = load(step + kHighAt + block * kHigh + 4 * row);
      const Ints moved = group <= 4 ? shift_left(high, 4 - group) : shift_right(high, group - 4);
      code = or_masked(code, moved, splat_byte(16));
    }
    if constexpr (kLayout.high_bits == 2) {
      const Ints high = load(step + kHighAt + block * kHigh + group / 4 * 64 + 4 * row);
      const int place = 2 * (group % 4);
      const Ints moved = place <= 4 ? shift_left(high, 4 - place) : shift_right(high, place - 4);
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

// Asks for the panel after this one, in L2, a block's share at a time.
template <PackedFormat kFormat>
INGOT_INLINE void prefetch_next_panel(const std::uint8_t* step, std::int64_t block,
                                      std::int64_t panel_bytes) {
  constexpr std::int64_t kShare =
      static_cast<std::int64_t>(packed_layout(kFormat).step_bytes()) / packed_layout(kFormat).step_blocks;
  const std::uint8_t* from = step + panel_bytes + block * kShare;
  for (std::int64_t at = 0; at < kShare; at += 64) __builtin_prefetch(from + at, 0, 2);
}

// R rows of x with kLanes rows of the panel.
template <PackedFormat kFormat, int R>
INGOT_NOINLINE void panel_rows(const PanelProduct& p, const std::uint8_t* x, float* y, std::int64_t row) {
  // Many rows take their time over a panel; the next one comes while the first of them are at work.
  const bool fetch_next = R > 4 && p.next && x == p.x && row == 0;
  const std::int64_t panel_bytes = p.steps * static_cast<std::int64_t>(packed_layout(kFormat).step_bytes());
  using D = Decoder<kFormat>;
  constexpr PackedLayout kLayout = D::kLayout;
  constexpr int kParts = D::kHalves ? 2 : 1, kGroups = 8 / kParts;
  Floats sum[R];
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r) sum[r] = zero_floats();
  // One base pointer for each three rows, hidden from the optimiser, which would otherwise keep a pointer per
  // row and spill them all.
  constexpr int kBases = (R + 2) / 3;
  const std::uint8_t* base[kBases];
  for (int b = 0; b < kBases; ++b) {
    base[b] = x + 3 * b * p.x_stride;
    asm("" : "+r"(base[b]));
  }
  const std::int64_t stride = p.x_stride;
  const std::uint8_t* step = p.panel;
  for (std::int64_t s = 0; s < p.steps; ++s, step += kLayout.step_bytes()) {
    const D decoder(step, row);
    for (std::int64_t block = 0; block < kLayout.step_blocks; ++block) {
      if constexpr (R <= 4) prefetch_ahead<kFormat>(step, block);
      if (fetch_next) prefetch_next_panel<kFormat>(step, block, panel_bytes);
      INGOT_UNROLL_ROWS
      for (int part = 0; part < kParts; ++part) {
        Ints dots[R];
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) {
          const auto* a = reinterpret_cast<const ActivationBlock*>(base[r / 3] + r % 3 * stride);
          if constexpr (D::kHasMin || D::kSigned) {
            dots[r] = zero_ints();
          } else {
            dots[r] = shift_left(
                splat(D::kHalves ? a->negative_half_sums[static_cast<std::size_t>(part)] : a->negative_sum),
                kLayout.zero_shift);
          }
        }
        INGOT_UNROLL_ROWS
        for (int g = 0; g < kGroups; ++g) {
          const int group = part * kGroups + g;
          const Ints codes = decoder.codes(block, group);
          INGOT_UNROLL_ROWS
          for (int r = 0; r < R; ++r) {
            const Ints a = splat_word(base[r / 3] + r % 3 * stride + 4 * group);
            dots[r] = D::kSigned ? dot_signed(dots[r], codes, a) : dot(dots[r], codes, a);
          }
        }
        const Floats scale = decoder.scale(block, part);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) {
          const auto* a = reinterpret_cast<const ActivationBlock*>(base[r / 3] + r % 3 * stride);
          sum[r] = multiply_add(to_floats(dots[r]), multiply(scale, splat(a->scale)), sum[r]);
        }
      }
      if constexpr (D::kHasMin) {
        const Floats minimum = decoder.minimum(block);
        INGOT_UNROLL_ROWS
        for (int r = 0; r < R; ++r) {
          const auto* a = reinterpret_cast<const ActivationBlock*>(base[r / 3] + r % 3 * stride);
          sum[r] = decoder.add_minimum(block, minimum, splat(a->scaled_sum), sum[r]);
        }
      }
      INGOT_UNROLL_ROWS
      for (int b = 0; b < kBases; ++b) base[b] += sizeof(ActivationBlock);
    }
  }
  const std::int64_t cols = p.cols - row;
  const Floats bias = p.bias != nullptr ? load_floats(p.bias + row, cols) : zero_floats();
  INGOT_UNROLL_ROWS
  for (int r = 0; r < R; ++r)
    store_floats(y + r * p.y_stride + row, p.bias != nullptr ? add(sum[r], bias) : sum[r], cols);
}

template <PackedFormat kFormat, int R>
INGOT_INLINE void panel_tile(const PanelProduct& p, std::int64_t at) {
  for (std::int64_t row = 0; row < p.cols; row += kLanes)
    panel_rows<kFormat, R>(p, p.x + at * p.x_stride, p.y + at * p.y_stride, row);
}

template <PackedFormat kFormat>
void panel_product(const PanelProduct& p, std::int64_t rows) {
  std::int64_t at = 0;
  for (; rows - at >= kMaxRows; at += kMaxRows) panel_tile<kFormat, kMaxRows>(p, at);
  if constexpr (kMaxRows > 8) {
    if (rows - at >= 8) panel_tile<kFormat, 8>(p, at), at += 8;
  }
  if constexpr (kMaxRows > 4) {
    if (rows - at >= 4) panel_tile<kFormat, 4>(p, at), at += 4;
  }
  if (rows - at >= 2) panel_tile<kFormat, 2>(p, at), at += 2;
  if (rows - at >= 1) panel_tile<kFormat, 1>(p, at);
}

// pick.operator()<format>(), or null for the formats of other kernels.
template <class Pick>
PanelKernel for_format(PackedFormat format, Pick&& pick) {
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
    case PackedFormat::nf4:
    case PackedFormat::fp8:
    case PackedFormat::f32:
    case PackedFormat::w8a8:
      break;
  }
  return nullptr;
}

[[maybe_unused]] PanelKernel panel_kernel(PackedFormat format) {
  return for_format(format, []<PackedFormat kFormat>() -> PanelKernel { return panel_product<kFormat>; });
}
