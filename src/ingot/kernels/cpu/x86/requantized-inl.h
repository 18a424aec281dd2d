// Products of many rows with codes of four bits and less, which are rounded anew (quantized.h), for one
// instruction set: a span of some panels' columns becomes panels of w8a8, which stay in L1 for all rows.
// Included as row_scaled-inl.h is, and with it; the vectors' operations that only this file uses are
//
//   divide, absolute, maximum     of Floats; where one of two is no number, maximum() may give either
//   unless_below(top, least, x)   x where top is not below least, else 0
//   to_ints                       Floats to the nearest Ints, ties to even
//   low_bytes(a, b, c, d)         by lanes, the low bytes of four Ints from -128 to 127, a's first
//   bits_xor, store               of Ints; store() to an aligned place

#include "ingot/kernels/cpu/x86/row_scaled-inl.h"

constexpr PackedLayout kSpanLayout = packed_layout(PackedFormat::w8a8);
constexpr auto kSpanPanelBytes = static_cast<std::int64_t>(kSpanLayout.panel_bytes(kPackedSpan));
constexpr std::int64_t kSpanBlocks = kPackedSpan / kPackedBlock;

// kLanes rows of `blocks` blocks from `steps` on, into a panel of w8a8 at `to`.
template <PackedFormat kFormat>
INGOT_INLINE void round_anew(const std::uint8_t* steps, std::int64_t blocks, std::int64_t row,
                             std::uint8_t* to) {
  using D = Decoder<kFormat>;
  constexpr PackedLayout kLayout = D::kLayout;
  constexpr std::int64_t kZero = D::kHasMin ? 0 : std::int64_t{1} << kLayout.zero_shift;
  const auto decoder = [&](std::int64_t block) {
    return D(steps + block / kLayout.step_blocks * static_cast<std::int64_t>(kLayout.step_bytes()), row);
  };
  Floats scales[kSpanBlocks], minima[kSpanBlocks];
  Floats top = zero_floats(), none = zero_floats();  // `none` is no number where a scale is none
  for (std::int64_t b = 0; b < blocks; ++b) {
    const D from = decoder(b);
    scales[b] = from.scale(b % kLayout.step_blocks, 0);
    Floats most = multiply(scales[b], splat(static_cast<float>(kZero)));
    if constexpr (D::kHasMin) {
      minima[b] = from.add_minimum(b % kLayout.step_blocks, from.minimum(b % kLayout.step_blocks),
                                   splat(1.0F), zero_floats());
      constexpr int kMostCode = (1 << kLayout.low_bits) - 1;
      most = multiply_add(splat(static_cast<float>(kMostCode)), scales[b], minima[b]);
      top = maximum(top, absolute(minima[b]));
    }
    top = maximum(top, absolute(most));
    none = multiply_add(most, zero_floats(), none);
  }
  top = add(top, none);
  constexpr float kLeast = 0x1p-110F;
  const Floats inverse = unless_below(top, splat(kLeast), divide(splat(127.0F), top));
  store_floats(reinterpret_cast<float*>(to) + row,
               unless_below(top, splat(kLeast), divide(top, splat(127.0F))), kLanes);
  const Ints flip = splat_byte(-128), byte = splat(255);
  std::uint8_t* codes = to + kSpanLayout.panel_header_bytes() + 4 * row;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const D from = decoder(b);
    const Floats unit = multiply(scales[b], inverse);
    const Floats start =
        D::kHasMin ? multiply(minima[b], inverse) : multiply(unit, splat(-static_cast<float>(kZero)));
    INGOT_UNROLL_ROWS
    for (int group = 0; group < 8; ++group, codes += 64) {
      const Ints four = from.codes(b % kLayout.step_blocks, group);
      Ints each[4] = {bits_and(four, byte), bits_and(shift_right(four, 8), byte),
                      bits_and(shift_right(four, 16), byte), shift_right(four, 24)};
      INGOT_UNROLL_ROWS
      for (Ints& code : each) code = to_ints(multiply_add(to_floats(code), unit, start));
      store(codes, bits_xor(low_bytes(each[0], each[1], each[2], each[3]), flip));
    }
  }
  // A step of w8a8 has two blocks.
  if (blocks % 2 == 0) return;
  for (int group = 0; group < 8; ++group, codes += 64) store(codes, flip);
}

template <PackedFormat kFormat>
void requantized_product(const RequantizedProduct& p, std::int64_t rows) {
  constexpr PackedLayout kLayout = packed_layout(kFormat);
  constexpr std::int64_t kBytes =
      kSpanBlocks / kLayout.step_blocks * static_cast<std::int64_t>(kLayout.step_bytes());
  alignas(64) std::uint8_t panels[kRowScaledKernel.panels * kSpanPanelBytes];
  RowScaledProduct product = p.product;
  product.panel = panels;
  for (std::int64_t done = 0; done < p.blocks; done += kSpanBlocks) {
    const std::int64_t blocks = p.blocks - done < kSpanBlocks ? p.blocks - done : kSpanBlocks;
    product.panel_bytes = static_cast<std::int64_t>(kSpanLayout.panel_bytes(blocks * kPackedBlock));
    for (std::int64_t panel = 0; panel < product.panels; ++panel) {
      const std::uint8_t* steps =
          p.product.panel + panel * p.product.panel_bytes + done / kSpanBlocks * kBytes;
      for (std::int64_t row = 0; row < kPanelRows; row += kLanes)
        round_anew<kFormat>(steps, blocks, row, panels + panel * product.panel_bytes);
    }
    product.add = done > 0;
    run_row_scaled_product(product, rows);
    product.x += p.span_stride;
  }
}

RequantizedKernel requantized_kernel(PackedFormat format) {
  return {
      for_format<void (*)(const RequantizedProduct&, std::int64_t)>(format,
                                                                    []<PackedFormat kFormat>() {
                                                                      if constexpr (rounded_anew(kFormat))
                                                                        return requantized_product<kFormat>;
                                                                      else
                                                                        return nullptr;
                                                                    }),
      kRowScaledKernel.panels};
}
