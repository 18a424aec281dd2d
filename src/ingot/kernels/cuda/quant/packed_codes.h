#pragma once

#include <algorithm>
#include <bit>

#include "ingot/kernels/cuda/device/fp8.h"
#include "ingot/kernels/cuda/hardware/pairs.h"
#include "ingot/kernels/packed.h"

// What codes of packed weights (kernels/packed.h) stand for, in device code.
namespace ingot::kernels::cuda {

inline constexpr int kPanel = static_cast<int>(kPanelRows);

constexpr unsigned word_of(const std::array<std::uint8_t, 16>& bytes, std::size_t word) {
  return bytes[4 * word] | unsigned{bytes[4 * word + 1]} << 8 | unsigned{bytes[4 * word + 2]} << 16 |
         unsigned{bytes[4 * word + 3]} << 24;
}

/// A format's layout (kernels/packed.h) as the numbers that device code can use.
template <PackedFormat format>
struct Packed {
  static constexpr PackedScales kScales = packed_layout(format).scales;
  static constexpr int kLowBits = packed_layout(format).low_bits;
  static constexpr int kHighBits = packed_layout(format).high_bits;
  static constexpr int kStepBlocks = packed_layout(format).step_blocks;
  static constexpr PackedTable kTable = packed_layout(format).table;
  /// Whether codes(), less zero, takes all of a signed byte.
  static constexpr bool kWide = packed_layout(format).has_wide_codes();
  static constexpr int kZero =
      packed_layout(format).zero_shift < 0 ? 0 : 1 << packed_layout(format).zero_shift;
  static constexpr int kHeader = static_cast<int>(packed_layout(format).header_bytes());
  static constexpr int kLowBlock = static_cast<int>(packed_layout(format).low_block_bytes());
  static constexpr int kHighBlock = static_cast<int>(packed_layout(format).high_block_bytes());
  static constexpr int kStep = static_cast<int>(packed_layout(format).step_bytes());
  static constexpr int kPanelHeader = static_cast<int>(packed_layout(format).panel_header_bytes());

  /// Bytes 4 · word ... of the table.
  __device__ static unsigned table_word(const std::uint8_t* step, int word) {
    if constexpr (kTable == PackedTable::header)
      return reinterpret_cast<const unsigned*>(step + kTableAt)[word];
    constexpr auto kBytes = packed_table(kTable);
    constexpr unsigned kWords[4] = {word_of(kBytes, 0), word_of(kBytes, 1), word_of(kBytes, 2),
                                    word_of(kBytes, 3)};
    return kWords[word];
  }
  /// The table's bytes for four indices, a byte each: a byte permutation takes eight of the sixteen.
  __device__ static unsigned look_up(const std::uint8_t* step, unsigned indices) {
    const unsigned pairs = indices | indices >> 4;
    const unsigned nibbles = (pairs & 255U) | (pairs >> 8 & 0xff00U);
    const unsigned low = __byte_perm(table_word(step, 0), table_word(step, 1), nibbles & 0x7777U);
    const unsigned high = __byte_perm(table_word(step, 2), table_word(step, 3), nibbles & 0x7777U);
    const unsigned upper = (indices >> 3 & 0x01010101U) * 255U;  // all ones where the index is 8 or more
    return (low & ~upper) | (high & upper);
  }

  /// The codes of columns 4 · group ... of a row in block `block` of a step, a byte each.
  __device__ static unsigned codes(const std::uint8_t* step, int block, int group, int row) {
    const auto word = [row](const std::uint8_t* vector) {
      return reinterpret_cast<const unsigned*>(vector)[row];
    };
    const std::uint8_t* low = step + kHeader + block * kLowBlock;
    unsigned result = 0;
    if constexpr (kLowBits == 8) result = word(low + group * 64);
    if constexpr (kLowBits == 4) result = word(low + group % 4 * 64) >> (4 * (group / 4)) & 0x0f0f0f0fU;
    if constexpr (kLowBits == 2) result = word(low + group % 2 * 64) >> (2 * (group / 2)) & 0x03030303U;
    const std::uint8_t* high = step + kHeader + kStepBlocks * kLowBlock + block * kHighBlock;
    if constexpr (kHighBits == 1) result |= (word(high) >> group & 0x01010101U) << kLowBits;
    if constexpr (kHighBits == 2)
      result |= (word(high + group / 4 * 64) >> (2 * (group % 4)) & 0x03030303U) << kLowBits;
    if constexpr (kTable != PackedTable::none) return look_up(step, result);
    return result;
  }

  /// Four codes less zero, as signed bytes: no byte of the sum carries into the next.
  __device__ static unsigned less_zero(unsigned codes) {
    if constexpr (kZero == 0) return codes;
    return (codes + (128 - kZero) * 0x01010101U) ^ 0x80808080U;
  }

  __device__ static float half_at(const std::uint8_t* step, int index) {
    return to_float(reinterpret_cast<const half_t*>(step)[index]);
  }
  /// The scale of one half of a block's columns, and what is added to every value.
  __device__ static float scale(const std::uint8_t* step, int block, int half, int row) {
    if constexpr (kScales == PackedScales::flat) return half_at(step, block * 16 + row);
    if constexpr (kScales == PackedScales::flat_min) return half_at(step, block * 32 + row);
    if constexpr (kScales == PackedScales::super_min)
      return half_at(step, row) * static_cast<float>(step[64 + block * 16 + row]);
    if constexpr (kScales == PackedScales::super_halves) {
      const float unit =
          kTable == PackedTable::header ? *reinterpret_cast<const float*>(step + kUnitAt) : 1.0F;
      return half_at(step, row) * unit *
             static_cast<float>(static_cast<std::int8_t>(step[64 + (2 * block + half) * 16 + row]));
    }
    if constexpr (kScales == PackedScales::values || kScales == PackedScales::row)
      return reinterpret_cast<const float*>(step)[row];
    if constexpr (kScales == PackedScales::e4m3)  // less the panel's own
      return to_float(e4m3_t{step[4 * row + 2 * block + half]});
    return half_at(step, row);
  }
  /// The same times what the panel has for the row.
  __device__ static float whole_scale(const std::uint8_t* panel, const std::uint8_t* step, int block,
                                      int half, int row) {
    if constexpr (kScales == PackedScales::row) return scale(panel, block, half, row);
    const float own = scale(step, block, half, row);
    if constexpr (kScales == PackedScales::e4m3)
      return __fmul_rn(reinterpret_cast<const float*>(panel)[row], own);
    return own;
  }
  __device__ static float minimum(const std::uint8_t* step, int block, int row) {
    if constexpr (kScales == PackedScales::flat_min) return half_at(step, block * 32 + 16 + row);
    if constexpr (kScales == PackedScales::super_min)
      return -(half_at(step, 16 + row) * static_cast<float>(step[64 + (kStepBlocks + block) * 16 + row]));
    if constexpr (kScales == PackedScales::group_zero)
      return -(half_at(step, row) * static_cast<float>(step[32 + row]));
    return 0.0F;
  }
};

/// How many scales a block has, and whether something is added to its values. Not members: nvcc warns of
/// those that a format does not use.
template <class Format>
inline constexpr int kHalves = Format::kScales == PackedScales::super_halves ? 2 : 1;
template <class Format>
inline constexpr bool kHasMinimum = Format::kZero == 0;
template <PackedFormat... formats, class F>
void dispatch_listed(PackedFormat format, F& f) {
  ((format == formats ? f.template operator()<formats>() : void()), ...);
}
template <class F>
void dispatch_rounded(PackedFormat format, F&& f) {
  using enum PackedFormat;
  dispatch_listed<q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, q4_g32, q4_g64, q4_g128, q2_g256, iq4_nl,
                  mxfp4, codebook>(format, f);
}
template <class F>
void dispatch_weight_only(PackedFormat format, F&& f) {
  dispatch_listed<PackedFormat::nf4, PackedFormat::fp8, PackedFormat::nvfp4>(format, f);
}
template <class F>
void dispatch_row_scaled(PackedFormat format, F&& f) {
  dispatch_listed<PackedFormat::w8a8>(format, f);
}

__device__ __forceinline__ float e4m3_value(int code) {
  return to_float(e4m3_t{static_cast<std::uint8_t>(code)});
}

/// What the codes of a weight-only format stand for.
template <PackedFormat format>
struct CodeValues {
  float table[16];

  CodeValues() {
    const auto& values = format == PackedFormat::nvfp4 ? kE2m1Values : kNf4Values;
    std::copy(values.begin(), values.end(), table);
  }

  __device__ float value(int code) const {
    if constexpr (format != PackedFormat::fp8) return table[code];
    return e4m3_value(code);
  }
};

/// The values of the codes in bytes 0 and 2. `table` holds those of four bits, in shared memory: sixteen lie
/// in banks of their own, so lanes that look up different ones do not wait for each other.
template <PackedFormat format>
__device__ __forceinline__ Vector<float, 2> code_pair(unsigned codes, const float* table) {
  if constexpr (format != PackedFormat::fp8) return {{table[codes & 15], table[codes >> 16 & 15]}};
  return e4m3_pair(codes);
}

}  // namespace ingot::kernels::cuda
