// Rounds a span of a weight's panel anew, for matmuls of many rows (quantized.h), for one instruction set:
// f32 scales of the 16 rows, then their codes. Included behind quantized-inl.h; the vectors' operations that
// only this file uses are
//
//   divide, absolute, maximum     of Floats; where one of two is not a number, maximum() may give either
//   unless_below(top, least, x)   x where top is not below least, else 0
//   to_ints                       Floats to the nearest Ints, ties to even
//   least_bytes, most_bytes       of Ints, byte by byte, without sign
//   add_bytes                     of Ints, byte by byte
//   store                         of Ints, to an aligned address

constexpr std::int64_t kSpanBlocks = kPackedSpan / kPackedBlock;

// How the codes of four columns are put into memory.
struct WordStore {  // the two codes of a row beside each other, for every two columns
  static constexpr int kMost = kMostSpanWeight;
  static constexpr std::int64_t kBlockBytes = 2 * kPackedBlock * kPanelRows;
  static INGOT_INLINE void put(std::uint8_t* to, const Ints (&each)[4]) {
    const Ints low_word = splat(0xffff);
    store(to, or_masked(shift_left(each[1], 16), each[0], low_word));
    store(to + 64, or_masked(shift_left(each[3], 16), each[2], low_word));
  }
};
template <int kMostCode>
struct ByteStore {  // the four codes of a row beside each other, with what makes them positive added
  static constexpr int kMost = kMostCode, kZeroShift = kMostCode > 64 ? 7 : kMostCode > 32 ? 6 : 5;
  static constexpr std::int64_t kBlockBytes = kPackedBlock * kPanelRows;
  static INGOT_INLINE void put(std::uint8_t* to, const Ints (&each)[4]) {
    const Ints byte = splat(255), low_word = splat(0xffff);
    const Ints low = or_masked(shift_left(each[1], 8), each[0], byte);
    const Ints high = or_masked(shift_left(each[3], 8), each[2], byte);
    store(to, add_bytes(or_masked(shift_left(high, 16), low, low_word), splat_byte(1 << kZeroShift)));
  }
};

// The extreme codes of some groups of a block, without sign, for each row.
struct CodeRange {
  Ints least = splat_byte(255), most = zero_ints();

  template <class D>
  INGOT_INLINE CodeRange(const D& from, std::int64_t block, int first, int groups) {
    INGOT_UNROLL_ROWS
    for (int group = 0; group < groups; ++group) {
      const Ints four = from.codes(block, first + group);
      least = least_bytes(least, four), most = most_bytes(most, four);
    }
    INGOT_UNROLL_ROWS
    for (int distance = 16; distance >= 8; distance -= 8) {
      least = least_bytes(least, shift_right(least, distance));
      most = most_bytes(most, shift_right(most, distance));
    }
    least = bits_and(least, splat(255)), most = bits_and(most, splat(255));
  }
};

// kLanes rows of `blocks` blocks from `steps` on, into a panel at `to`. Codes are not clamped: they pass
// kMost only in a span whose every value is some 2^-18 of the terms that it is the difference of.
template <PackedFormat kFormat, class Store>
INGOT_INLINE void round_anew(const std::uint8_t* steps, std::int64_t blocks, std::int64_t row,
                             std::uint8_t* to) {
  using D = Decoder<kFormat>;
  constexpr PackedLayout kLayout = D::kLayout;
  const auto decoder = [&](std::int64_t block) {
    return D(steps + block / kLayout.step_blocks * static_cast<std::int64_t>(kLayout.step_bytes()), row);
  };
  constexpr int kParts = D::kHalves ? 2 : 1, kPartGroups = 8 / kParts;
  Floats scales[kSpanBlocks][kParts], starts[kSpanBlocks][kParts];  // value = code · scale + start
  Floats top = zero_floats(), none = zero_floats();  // `none` is not a number where a scale is none
  for (std::int64_t b = 0; b < blocks; ++b) {
    const D from = decoder(b);
    const std::int64_t block = b % kLayout.step_blocks;
    for (int part = 0; part < kParts; ++part) {
      const Floats scale = scales[b][part] = from.scale(block, part);
      if constexpr (D::kHasMin)
        starts[b][part] = from.add_minimum(block, from.minimum(block), splat(1.0F), zero_floats());
      else
        starts[b][part] = multiply(scale, splat(-static_cast<float>(1 << kLayout.zero_shift)));
      const CodeRange range(from, block, part * kPartGroups, kPartGroups);
      const Floats low = multiply_add(to_floats(range.least), scale, starts[b][part]);
      const Floats high = multiply_add(to_floats(range.most), scale, starts[b][part]);
      top = maximum(top, maximum(absolute(low), absolute(high)));
      none = multiply_add(high, zero_floats(), none);
    }
  }
  top = add(top, none);
  const Floats most = splat(static_cast<float>(Store::kMost));
  const Floats inverse = unless_below(top, splat(kLeastTop), divide(most, top));
  store_floats(reinterpret_cast<float*>(to) + row, unless_below(top, splat(kLeastTop), divide(top, most)),
               kLanes);
  const Ints byte = splat(255);
  std::uint8_t* codes = to + kScaleBytes + 4 * row;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const D from = decoder(b);
    for (int part = 0; part < kParts; ++part) {
      scales[b][part] = multiply(scales[b][part], inverse);
      starts[b][part] = multiply(starts[b][part], inverse);
    }
    INGOT_UNROLL_ROWS
    for (int group = 0; group < 8; ++group, codes += Store::kBlockBytes / 8) {
      const Floats unit = scales[b][group / kPartGroups], start = starts[b][group / kPartGroups];
      const Ints four = from.codes(b % kLayout.step_blocks, group);
      Ints each[4] = {bits_and(four, byte), bits_and(shift_right(four, 8), byte),
                      bits_and(shift_right(four, 16), byte), shift_right(four, 24)};
      INGOT_UNROLL_ROWS
      for (Ints& code : each) code = to_ints(multiply_add(to_floats(code), unit, start));
      Store::put(codes, each);
    }
  }
}

// For each span of the panels, up to kMostPanels of them: rounds it anew and calls multiply(matmul with those
// panels and the x of the span, its blocks).
template <PackedFormat kFormat, class Store, std::int64_t kMostPanels, class Multiply>
INGOT_INLINE void multiply_anew(const RequantizedMatmul& p, Multiply&& multiply) {
  constexpr PackedLayout kLayout = packed_layout(kFormat);
  constexpr std::int64_t kBytes =
      kSpanBlocks / kLayout.step_blocks * static_cast<std::int64_t>(kLayout.step_bytes());
  alignas(64) std::uint8_t panels[kMostPanels * (kScaleBytes + kSpanBlocks * Store::kBlockBytes)];
  RowScaledMatmul matmul = p.matmul;
  matmul.panel = panels;
  for (std::int64_t done = 0; done < p.blocks; done += kSpanBlocks) {
    const std::int64_t blocks = p.blocks - done < kSpanBlocks ? p.blocks - done : kSpanBlocks;
    matmul.panel_bytes = kScaleBytes + blocks * Store::kBlockBytes;
    for (std::int64_t panel = 0; panel < matmul.panels; ++panel) {
      const std::uint8_t* steps = p.matmul.panel + panel * p.matmul.panel_bytes + done / kSpanBlocks * kBytes;
      for (std::int64_t row = 0; row < kPanelRows; row += kLanes)
        round_anew<kFormat, Store>(steps, blocks, row, panels + panel * matmul.panel_bytes);
    }
    matmul.add = done > 0;
    multiply(matmul, blocks);
    matmul.x += p.span_stride;
  }
}
