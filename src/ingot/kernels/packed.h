#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// The tiles in which quantized weights lie at run time. A weight [rows, cols] is cut into panels of 16 rows;
// a panel holds its columns in steps, one after the other, so that a matmul of any number of rows streams
// each panel once from front to back. Within a step, by 32 columns ("block"): codes of four consecutive
// columns for each of the 16 rows make a group of 64 bytes, which is what an int8 dot product of 512 bits
// takes.
//
//   step = header | low codes | high bits
//
// Formats with one scale for a whole row have it before the panel's first step, and steps without a header.
//
// Low codes of 8 bits: 8 groups per block. Of 4 bits: 4 vectors of 64 bytes; vector v has group v in its low
// and group v + 4 in its high nibbles. Of 2 bits: 2 vectors, vector v has groups v, v + 2, v + 4, v + 6 from
// low to high. One high bit: a vector whose bit g belongs to group g. Two: two vectors; bits 2j, 2j + 1 of
// vector v to group 4v + j. Of 32 bits: the numbers themselves, 16 rows of a column after those of the one
// before.
namespace ingot::kernels {

inline constexpr std::int64_t kPanelRows = 16;
inline constexpr std::int64_t kPackedBlock = 32;  ///< columns; activations are rounded in blocks of as many

enum class PackedFormat : std::uint8_t {
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  q4_g32,
  q4_g64,
  q4_g128,   ///< groups with zero points: GPTQ, AWQ
  q2_g256,   ///< ternary weights
  iq4_nl,    ///< codes stand for 16 whole numbers, spread unevenly
  mxfp4,     ///< likewise: E2M1
  codebook,  ///< likewise, numbers of the matrix' own: GGUF's IQ formats with blocks of 256
  nf4,       ///< codes stand for the values of a table; multiplied as f32 (kernels/weight_only.h)
  fp8,       ///< codes are f8e4m3 numbers; likewise
  f32,       ///< nothing is rounded: for matmuls of many rows, which need not rearrange it each time
  w8a8,      ///< a scale for each row, here and in the activations (row_scaled_matmul)
  nvfp4,     ///< codes are numbers of E2M1; multiplied as f32 (kernels/weight_only.h)
};

/// Header of a step, each item for the 16 rows of the panel:
enum class PackedScales : std::uint8_t {
  flat,       ///< per block: f16 scale
  flat_min,   ///< per block: f16 scale, f16 minimum: value = scale · code + minimum
  super_min,  ///< f16 d, f16 dmin; u8 scales [block]; u8 mins [block]: value = d·scale · code − dmin·min
  super_halves,  ///< f16 d, 32 bytes for PackedTable::header; i8 scales [block][half]: blocks have two
                 ///< scales, for 16 columns each
  group_zero,  ///< f16 scale, u8 zero, 16 bytes unused, for the whole step: value = scale · (code − zero)
  values,      ///< f32 scale for the whole step: value = scale · packed_value(format, code)
  none,        ///< no header: value = packed_value(format, code)
  row,         ///< no header, but before the first step f32 scale: value = scale · code
  e4m3,        ///< u8 [row][4]: E4M3 scales, for 16 columns each, and before the first step f32 scale:
               ///< value = (scale · E4M3 scale) · packed_value(format, code)
};

/// The whole numbers that codes of 4 bits stand for, where these are not numbers themselves. Tables hold them
/// with 128 added, as codes of 8 bits.
enum class PackedTable : std::uint8_t {
  none,
  iq4_nl,
  mxfp4,
  header,  ///< 16 bytes of each step's header, at 32
};
inline constexpr std::int64_t kTableAt = 32;
/// Behind it an f32 that d is multiplied with: formats whose scales are fractions keep their own d in f16.
inline constexpr std::int64_t kUnitAt = 48;

/// GGUF's IQ4_NL and IQ4_XS (ggml-common.h): quantiles of a normal distribution, scaled to int8.
inline constexpr std::array<std::int8_t, 16> kIq4NlValues{-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the numbers of E2M1 (OCP Microscaling): the fourth bit is the sign.
inline constexpr std::array<std::int8_t, 16> kMxFp4Values{0, 1,  2,  3,  4,  6,  8,  12,
                                                          0, -1, -2, -3, -4, -6, -8, -12};

/// A table as kernels read it. Of PackedTable::header and none: zeros.
constexpr std::array<std::uint8_t, 16> packed_table(PackedTable table) {
  std::array<std::uint8_t, 16> codes{};
  for (std::size_t i = 0; i < 16; ++i) {
    if (table == PackedTable::iq4_nl) codes[i] = static_cast<std::uint8_t>(kIq4NlValues[i] + 128);
    if (table == PackedTable::mxfp4) codes[i] = static_cast<std::uint8_t>(kMxFp4Values[i] + 128);
  }
  return codes;
}

struct PackedLayout {
  std::string_view name;
  PackedScales scales;
  int low_bits;     ///< 32, 8, 4 or 2
  int high_bits;    ///< 0, 1 or 2 more
  int zero_shift;   ///< codes have 1 << zero_shift subtracted; −1: nothing
  int step_blocks;  ///< blocks in a step
  PackedTable table = PackedTable::none;

  /// Whether codes, once a table has replaced them, take all of 8 bits.
  constexpr bool has_wide_codes() const { return low_bits == 8 || table != PackedTable::none; }
  constexpr std::size_t header_bytes() const {
    const auto blocks = static_cast<std::size_t>(step_blocks);
    switch (scales) {
      case PackedScales::flat:
        return 32 * blocks;
      case PackedScales::flat_min:
        return 64 * blocks;
      case PackedScales::group_zero:
      case PackedScales::values:
      case PackedScales::e4m3:
        return 64;
      case PackedScales::none:
      case PackedScales::row:
        return 0;
      default:
        return 64 + 32 * blocks;
    }
  }
  /// What stands before a panel's first step.
  constexpr std::size_t panel_header_bytes() const {
    return scales == PackedScales::row || scales == PackedScales::e4m3 ? 64 : 0;
  }
  constexpr std::size_t low_block_bytes() const { return static_cast<std::size_t>(low_bits) * 64; }
  constexpr std::size_t high_block_bytes() const { return static_cast<std::size_t>(high_bits) * 64; }
  constexpr std::size_t step_bytes() const {
    return header_bytes() + static_cast<std::size_t>(step_blocks) * (low_block_bytes() + high_block_bytes());
  }
  constexpr std::int64_t step_cols() const { return step_blocks * kPackedBlock; }
  constexpr std::int64_t steps(std::int64_t cols) const { return (cols + step_cols() - 1) / step_cols(); }
  constexpr std::size_t panel_bytes(std::int64_t cols) const {
    return panel_header_bytes() + static_cast<std::size_t>(steps(cols)) * step_bytes();
  }
};

/// Blocks of 32 come in pairs, so that every part of a step starts at a cache line.
constexpr PackedLayout packed_layout(PackedFormat format) {
  switch (format) {
    case PackedFormat::q8_0:
      return {"q8_0", PackedScales::flat, 8, 0, 7, 2};
    case PackedFormat::q4_0:
      return {"q4_0", PackedScales::flat, 4, 0, 3, 2};
    case PackedFormat::q4_1:
      return {"q4_1", PackedScales::flat_min, 4, 0, -1, 2};
    case PackedFormat::q5_0:
      return {"q5_0", PackedScales::flat, 4, 1, 4, 2};
    case PackedFormat::q5_1:
      return {"q5_1", PackedScales::flat_min, 4, 1, -1, 2};
    case PackedFormat::q4_k:
      return {"q4_k", PackedScales::super_min, 4, 0, -1, 8};
    case PackedFormat::q5_k:
      return {"q5_k", PackedScales::super_min, 4, 1, -1, 8};
    case PackedFormat::q6_k:
      return {"q6_k", PackedScales::super_halves, 4, 2, 5, 8};
    case PackedFormat::q4_g32:
      return {"q4_g32", PackedScales::group_zero, 4, 0, -1, 1};
    case PackedFormat::q4_g64:
      return {"q4_g64", PackedScales::group_zero, 4, 0, -1, 2};
    case PackedFormat::q4_g128:
      return {"q4_g128", PackedScales::group_zero, 4, 0, -1, 4};
    case PackedFormat::q2_g256:
      return {"q2_g256", PackedScales::group_zero, 2, 0, -1, 8};
    case PackedFormat::iq4_nl:
      return {"iq4_nl", PackedScales::flat, 4, 0, 7, 2, PackedTable::iq4_nl};
    case PackedFormat::mxfp4:
      return {"mxfp4", PackedScales::flat, 4, 0, 7, 2, PackedTable::mxfp4};
    case PackedFormat::codebook:
      return {"codebook", PackedScales::super_halves, 4, 0, 7, 8, PackedTable::header};
    case PackedFormat::nf4:
      return {"nf4", PackedScales::values, 4, 0, -1, 2};
    case PackedFormat::fp8:
      return {"fp8", PackedScales::values, 8, 0, -1, 2};
    case PackedFormat::f32:
      return {"f32", PackedScales::none, 32, 0, -1, 1};
    case PackedFormat::w8a8:
      return {"w8a8", PackedScales::row, 8, 0, 7, 2};
    case PackedFormat::nvfp4:
      return {"nvfp4", PackedScales::e4m3, 4, 0, -1, 2};
  }
  return {};
}
inline constexpr int kPackedFormats = 20;

/// Whether a format's matmuls take f32 activations (weight_only_matmul) instead of rounded ones.
constexpr bool is_weight_only(PackedFormat format) {
  const PackedScales scales = packed_layout(format).scales;
  return scales == PackedScales::values || scales == PackedScales::none || scales == PackedScales::e4m3;
}

/// Whether a format's matmuls take rows that were rounded with one scale each (row_scaled_matmul).
constexpr bool is_row_scaled(PackedFormat format) {
  return packed_layout(format).scales == PackedScales::row;
}

/// Columns that have one scale where a matmul of many rows takes int16 codes (quantized_matmul). A whole
/// number of steps of each of its formats.
inline constexpr std::int64_t kPackedSpan = 256;

/// NormalFloat of 4 bits (Dettmers et al. 2023, "QLoRA"), the numbers that bitsandbytes uses: quantiles of a
/// normal distribution, scaled to ±1, with a zero.
inline constexpr std::array<float, 16> kNf4Values{
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

/// The numbers of E2M1 by their codes: the fourth bit is the sign.
inline constexpr std::array<float, 16> kE2m1Values{0.0F, 0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                   0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

/// Columns that share a scale in a weight-only matmul.
constexpr std::int64_t scale_columns(PackedFormat format) {
  return packed_layout(format).scales == PackedScales::e4m3 ? 16 : packed_layout(format).step_cols();
}

/// 32 columns of one row of x, rounded: x ≈ scale · codes. One cache line.
struct alignas(64) ActivationBlock {
  std::array<std::int8_t, 32> codes;               ///< −127 ... 127
  float scale;                                     ///< largest magnitude / 127
  float scaled_sum;                                ///< scale · Σ codes
  std::int32_t negative_sum;                       ///< −Σ codes
  std::array<std::int32_t, 2> negative_half_sums;  ///< the same over the first and the last 16
  std::array<std::int32_t, 3> unused;
};
static_assert(sizeof(ActivationBlock) == 64);

/// What stands before the codes of a row of x that was rounded with one scale: x ≈ scale · codes. The codes,
/// std::int8_t from −127 to 127, follow it. One cache line, so that rows of a multiple of 128 codes fall into
/// different sets of L1.
struct alignas(64) ActivationRow {
  float scale;                ///< largest magnitude / 127
  std::int32_t negative_sum;  ///< −Σ codes
  std::array<std::int32_t, 14> unused;
};
static_assert(sizeof(ActivationRow) == 64);

}  // namespace ingot::kernels
