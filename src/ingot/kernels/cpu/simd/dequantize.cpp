#include "ingot/kernels/cpu/dequantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/packed_block.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/dequantize.cpp"
#include <hwy/foreach_target.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

#ifndef INGOT_DEQUANTIZE_DESTINATION
#define INGOT_DEQUANTIZE_DESTINATION
namespace ingot::kernels::cpu {
/// Where values go: f32 or bf16, and f32 may be rounded to bf16.
struct Destination {
  void* data;
  std::int64_t stride;  ///< in elements
  DType dtype;
  bool rounded = false;
};
}  // namespace ingot::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kGroups = 8, kGroupBytes = 64;  // of a block: four columns of all rows each
using GroupCodes = std::array<std::array<std::uint8_t, kGroupBytes>, kGroups>;

// Eight bytes of a group at a time, in loops that become vectors: what a shift brings from the byte beside is
// masked.
constexpr std::size_t kWords = kGroupBytes / sizeof(std::uint64_t);
using GroupWords = std::array<std::uint64_t, kWords>;
constexpr std::uint64_t kEachByte = 0x0101010101010101;

GroupWords bits_of(const std::uint8_t* from, int shift, std::uint8_t mask) {
  GroupWords words;
  std::memcpy(words.data(), from, sizeof words);
  for (std::uint64_t& word : words) word = (word >> shift) & (mask * kEachByte);
  return words;
}

// The low bits of each group: `shift` of a vector of 64 bytes.
void take_bits(const std::uint8_t* from, int shift, std::uint8_t mask, std::uint8_t* to) {
  const GroupWords words = bits_of(from, shift, mask);
  std::memcpy(to, words.data(), sizeof words);
}

void add_bits(const std::uint8_t* from, int shift, std::uint8_t mask, int up, std::uint8_t* to) {
  const GroupWords more = bits_of(from, shift, mask);
  GroupWords words;
  std::memcpy(words.data(), to, sizeof words);
  for (std::size_t i = 0; i < kWords; ++i) words[i] |= more[i] << up;
  std::memcpy(to, words.data(), sizeof words);
}

void replace_codes(const std::uint8_t* table, std::uint8_t* codes) {
  for (std::size_t i = 0; i < kGroupBytes; ++i) codes[i] = table[codes[i]];
}

// Codes of a block as packed.h says they lie, zero not subtracted. `table`: of the format, or null.
void unpack_codes(const PackedLayout& layout, const std::uint8_t* low, const std::uint8_t* high,
                  const std::uint8_t* table, GroupCodes& codes) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::uint8_t* to = codes[g].data();
    if (layout.low_bits == 8) {
      std::memcpy(to, low + g * kGroupBytes, kGroupBytes);
    } else if (layout.low_bits == 4) {
      take_bits(low + g % 4 * kGroupBytes, 4 * static_cast<int>(g / 4), 15, to);
    } else {
      take_bits(low + g % 2 * kGroupBytes, 2 * static_cast<int>(g / 2), 3, to);
    }
    if (layout.high_bits == 1) add_bits(high, static_cast<int>(g), 1, layout.low_bits, to);
    if (layout.high_bits == 2)
      add_bits(high + g / 4 * kGroupBytes, 2 * static_cast<int>(g % 4), 3, layout.low_bits, to);
    if (table != nullptr) replace_codes(table, to);
  }
}

/// A float that has been rounded to bf16.
struct RoundedFloat {
  float value;
};

template <class T>
HWY_INLINE void store_values(D d, hn::Vec<D> v, T* p) {
  store_lanes(d, v, p);
}
HWY_INLINE void store_values(D d, hn::Vec<D> v, RoundedFloat* p) {
  hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bf16_bits(d, v))), d, &p->value);
}

using VI = hn::Vec<hn::RebindToSigned<D>>;

// What codes stand for: numbers less a zero.
class Numbers {
 public:
  explicit Numbers(std::int32_t zero) : zero_(zero) {}
  HWY_INLINE hn::Vec<D> of(VI code) const {
    return hn::ConvertTo(D(), hn::Sub(code, hn::Set(hn::RebindToSigned<D>(), zero_)));
  }

 private:
  std::int32_t zero_;
};

// Values of a table.
class Listed {
 public:
  explicit Listed(const float* table) : table_(table) {}
  HWY_INLINE hn::Vec<D> of(VI code) const { return hn::GatherIndex(D(), table_, code); }

 private:
  const float* table_;
};

// Of a table of 16, in registers where they hold 8 or more.
class ListedSixteen {
 public:
  explicit ListedSixteen(const float* table) : table_(table) {}
  HWY_INLINE hn::Vec<D> of(VI code) const {
#if HWY_MAX_BYTES == 64
    return hn::TableLookupLanes(hn::LoadU(D(), table_), hn::IndicesFromVec(D(), code));
#elif HWY_MAX_BYTES == 32
    const auto seven = hn::Set(hn::RebindToSigned<D>(), 7);
    const auto at = hn::IndicesFromVec(D(), hn::And(code, seven));
    return hn::IfThenElse(hn::RebindMask(D(), hn::Gt(code, seven)),
                          hn::TableLookupLanes(hn::LoadU(D(), table_ + 8), at),
                          hn::TableLookupLanes(hn::LoadU(D(), table_), at));
#else
    return hn::GatherIndex(D(), table_, code);
#endif
  }

 private:
  const float* table_;
};

// 32 values of a row. Multiplied and added apart, as the reference does.
template <class Values, class T>
HWY_INLINE void write_values(const std::uint8_t* codes, const PackedRowScales& scales, const Values& values,
                             T* y) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> du8;
  const auto minimum = hn::Set(d, scales.minimum);
  for (std::size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto value = values.of(hn::PromoteTo(di, hn::LoadU(du8, codes + i)));
    store_values(d, hn::Add(hn::Mul(hn::Set(d, scales.scale[i / 16]), value), minimum), y + i);
  }
}

/// A block of all rows of a panel.
struct PanelBlock {
  std::array<std::array<std::uint8_t, 32>, kPanelRows> codes;
  std::array<PackedRowScales, kPanelRows> scales;

  // Row by row, all before the first is read: a vector of bytes that were just stored one by one waits for
  // them.
  void take(const GroupCodes& groups) {
    for (std::size_t g = 0; g < kGroups; ++g)
      for (std::size_t row = 0; row < kPanelRows; ++row)
        std::memcpy(codes[row].data() + 4 * g, groups[g].data() + 4 * row, 4);
  }

  void take_scales(const PackedLayout& layout, const std::uint8_t* panel, const std::uint8_t* step,
                   std::int64_t block) {
    switch (layout.scales) {
      case PackedScales::values:
        return take_floats(step);
      case PackedScales::row:
        return take_floats(panel);
      case PackedScales::super_min:
        return take_products(layout, step, static_cast<std::size_t>(block % layout.step_blocks));
      default:
        for (std::int64_t row = 0; row < kPanelRows; ++row)
          scales[static_cast<std::size_t>(row)] = read_packed_scales(layout, panel, row, block);
    }
  }

 private:
  void take_floats(const std::uint8_t* from) {
    std::array<float, kPanelRows> of_rows;
    std::memcpy(of_rows.data(), from, sizeof of_rows);
    for (std::size_t row = 0; row < kPanelRows; ++row) scales[row] = {{of_rows[row], of_rows[row]}, 0};
  }

  // All rows at once, as read_packed_scales does one.
  void take_products(const PackedLayout& layout, const std::uint8_t* step, std::size_t block) {
    const D d;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint8_t, D> du8;
    const std::uint8_t* parts = step + 64 + block * kPanelRows;
    const std::uint8_t* minima = parts + static_cast<std::size_t>(layout.step_blocks) * kPanelRows;
    const auto* halves = reinterpret_cast<const f16*>(step);
    std::array<float, kPanelRows> scale, minimum;
    for (std::size_t row = 0; row < kPanelRows; row += hn::Lanes(d)) {
      const auto whole = [&](const std::uint8_t* from) {
        return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(du8, from + row)));
      };
      hn::StoreU(hn::Mul(load_lanes(d, halves + row), whole(parts)), d, scale.data() + row);
      hn::StoreU(hn::Neg(hn::Mul(load_lanes(d, halves + kPanelRows + row), whole(minima))), d,
                 minimum.data() + row);
    }
    for (std::size_t row = 0; row < kPanelRows; ++row) scales[row] = {{scale[row], scale[row]}, minimum[row]};
  }
};

// `count` of the block's columns.
template <class Values, class T>
HWY_INLINE void write_block(const PanelBlock& block, const Values& values, std::int64_t rows, T* y,
                            std::int64_t stride, std::int64_t count) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint8_t* codes = block.codes[static_cast<std::size_t>(row)].data();
    const PackedRowScales& scales = block.scales[static_cast<std::size_t>(row)];
    if (count == 32) {
      write_values(codes, scales, values, y + row * stride);
      continue;
    }
    std::array<T, 32> some;
    write_values(codes, scales, values, some.data());
    std::copy_n(some.data(), count, y + row * stride);
  }
}

// Panels [begin, end) of the piece.
template <class Values, class T>
void write_panels(const PackedPiece& piece, const Values& values, Destination to, std::int64_t begin,
                  std::int64_t end) {
  const PackedLayout layout = packed_layout(piece.format);
  const std::int64_t first = piece.col / 32, blocks = (piece.cols + 31) / 32;
  const std::size_t all_low = static_cast<std::size_t>(layout.step_blocks) * layout.low_block_bytes();
  GroupCodes groups;
  PanelBlock block;
  for (std::int64_t p = begin; p < end; ++p) {
    const std::uint8_t* panel =
        piece.weight.as<std::uint8_t>() + (piece.row / kPanelRows + p) * piece.weight.dim(-1);
    T* y = static_cast<T*>(to.data) + p * kPanelRows * to.stride;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t b = first + i;
      const std::uint8_t* step = panel + layout.panel_header_bytes() +
                                 static_cast<std::size_t>(b / layout.step_blocks) * layout.step_bytes();
      const std::uint8_t* in_step = step + layout.header_bytes();
      const auto at = static_cast<std::size_t>(b % layout.step_blocks);
      unpack_codes(layout, in_step + at * layout.low_block_bytes(),
                   in_step + all_low + at * layout.high_block_bytes(), packed_table_at(layout, step), groups);
      block.take(groups);
      block.take_scales(layout, panel, step, b);
      write_block(block, values, std::min(kPanelRows, piece.rows - p * kPanelRows), y + i * 32, to.stride,
                  std::min<std::int64_t>(32, piece.cols - i * 32));
    }
  }
}

// table: of the format, or null where codes are numbers.
template <class T>
void dequantize_to(const PackedPiece& piece, const float* table, Destination to, std::int64_t begin,
                   std::int64_t end) {
  const PackedLayout layout = packed_layout(piece.format);
  if (table == nullptr) {
    const Numbers numbers(layout.zero_shift < 0 ? 0 : 1 << layout.zero_shift);
    return write_panels<Numbers, T>(piece, numbers, to, begin, end);
  }
  if (layout.low_bits == 4)
    return write_panels<ListedSixteen, T>(piece, ListedSixteen(table), to, begin, end);
  write_panels<Listed, T>(piece, Listed(table), to, begin, end);
}

void dequantize_panels(const PackedPiece& piece, const float* table, Destination to, std::int64_t begin,
                       std::int64_t end) {
  if (to.dtype == DType::bf16) return dequantize_to<bf16>(piece, table, to, begin, end);
  to.rounded ? dequantize_to<RoundedFloat>(piece, table, to, begin, end)
             : dequantize_to<float>(piece, table, to, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(dequantize_panels);

// What the codes of NF4, FP8 and NVFP4 stand for.
const float* values_of_codes(PackedFormat format) {
  static const auto table_of = [](PackedFormat of, std::int32_t count) {
    std::array<float, 256> table{};
    for (std::int32_t i = 0; i < count; ++i) table[static_cast<std::size_t>(i)] = packed_value(of, i);
    return table;
  };
  static const std::array<float, 256> nf4 = table_of(PackedFormat::nf4, 16),
                                      fp8 = table_of(PackedFormat::fp8, 256),
                                      nvfp4 = table_of(PackedFormat::nvfp4, 16);
  switch (format) {
    case PackedFormat::nf4:
      return nf4.data();
    case PackedFormat::fp8:
      return fp8.data();
    case PackedFormat::nvfp4:
      return nvfp4.data();
    default:
      return nullptr;
  }
}

// A whole matrix: single rows are looked up, where this would unpack sixteen.
bool accepts(const DequantizeRowsArgs& args) {
  return !args.ids && args.format != PackedFormat::f32 &&
         (args.y.dtype == DType::f32 || args.y.dtype == DType::bf16);
}

void dequantize(const PackedPiece& piece, const Destination& to) {
  const float* table = values_of_codes(piece.format);
  const std::int64_t panels = (piece.rows + kPanelRows - 1) / kPanelRows;
  parallel_for(panels, 1 + 1024 / std::max<std::int64_t>(piece.cols, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(dequantize_panels)(piece, table, to, begin, end);
               });
}

void run(const DequantizeRowsArgs& args, Stream) {
  dequantize({args.format, args.weight, 0, args.y.dim(0), 0, args.y.dim(1)},
             {args.y.data, args.y.stride(0), args.y.dtype});
}

}  // namespace

void dequantize_piece(const PackedPiece& piece, float* to) {
  dequantize(piece, {to, piece.cols, DType::f32, /*rounded=*/true});
}

void register_dequantize_simd() {
  dequantize_rows.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
