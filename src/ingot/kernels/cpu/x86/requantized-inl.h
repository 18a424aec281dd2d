// Matmuls of many rows, for which the weight is rounded anew to int16 codes (quantized.h), for one
// instruction set: a span of some panels' columns becomes panels of codes, which stay in L1 for all rows.
// Included behind round_anew-inl.h and row_scaled-inl.h; the vectors' operations that only this file uses are
//
//   kWordTileRows                 kTileRows of int16 codes, which take fewer registers on the way
//   dot_words                     dot() of int16 codes, two to a lane

struct WordCodes {  // of spans
  static constexpr int kRows = kWordTileRows;
  static INGOT_INLINE Ints start(const std::uint8_t*) { return zero_ints(); }
  static INGOT_INLINE Ints add_dot(Ints sum, Ints codes, Ints x) { return dot_words(sum, codes, x); }
};

RequantizedKernel requantized_kernel(PackedFormat format) {
  using Run = void (*)(const RequantizedMatmul&, std::int64_t);
  const auto matmul = []<PackedFormat kFormat>() -> Run {
    return [](const RequantizedMatmul& p, std::int64_t rows) {
      multiply_anew<kFormat, WordStore, kRowScaledKernel.panels>(
          p,
          [&](const RowScaledMatmul& span, std::int64_t) { run_row_scaled_panels<WordCodes>(span, rows); });
    };
  };
  return {for_format<Run>(format, matmul), kRowScaledKernel.panels};
}
