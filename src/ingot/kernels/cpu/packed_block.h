#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "ingot/core/dtype.h"
#include "ingot/kernels/packed.h"

namespace ingot::kernels::cpu {

/// What makes values of the codes of 32 columns of a row: value[i] = scale[i / 16] · packed_value(codes[i])
/// + minimum.
struct PackedRowScales {
  std::array<float, 2> scale;
  float minimum;
};

/// 32 columns of one row of a panel.
struct PackedRow : PackedRowScales {
  std::array<std::int32_t, 32> codes;  ///< from the table, less zero; of f32 the bits
};

inline float packed_half(const std::uint8_t* data, std::int64_t index) {
  f16 value;
  std::memcpy(&value.bits, data + 2 * index, 2);
  return static_cast<float>(value);
}

/// The table that codes of 4 bits index, 128 added; null where the format has none. `step`: its first byte.
inline const std::uint8_t* packed_table_at(const PackedLayout& layout, const std::uint8_t* step) {
  static constexpr auto kIq4Nl = packed_table(PackedTable::iq4_nl), kMxFp4 = packed_table(PackedTable::mxfp4);
  switch (layout.table) {
    case PackedTable::none:
      return nullptr;
    case PackedTable::iq4_nl:
      return kIq4Nl.data();
    case PackedTable::mxfp4:
      return kMxFp4.data();
    case PackedTable::header:
      return step + kTableAt;
  }
  return nullptr;
}

/// What a code stands for, less zero.
inline float packed_value(PackedFormat format, std::int32_t code) {
  if (format == PackedFormat::nf4) return kNf4Values[static_cast<std::size_t>(code)];
  if (format == PackedFormat::nvfp4) return kE2m1Values[static_cast<std::size_t>(code)];
  if (format == PackedFormat::f32) return std::bit_cast<float>(code);
  if (format != PackedFormat::fp8) return static_cast<float>(code);
  f8e4m3 value;
  value.bits = static_cast<std::uint8_t>(code);
  return static_cast<float>(value);
}

/// `panel`: the panel's first byte.
PackedRowScales read_packed_scales(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row,
                                   std::int64_t block);

/// Reads a block of a row the plain way, as packed.h says it lies. `panel`: the panel's first byte.
PackedRow read_packed_row(const PackedLayout& layout, const std::uint8_t* panel, std::int64_t row,
                          std::int64_t block);

}  // namespace ingot::kernels::cpu
