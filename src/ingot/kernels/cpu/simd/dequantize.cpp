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
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kGroups = 8, kGroupBytes = 64;  // of a block: four columns of all rows each
using GroupCodes = std::array<std::array<std::uint8_t, kGroupBytes>, kGroups>;

// The low bits of each group: `shift` of a vector of 64 bytes.
void take_bits(const std::uint8_t* from, int shift, std::uint8_t mask, std::uint8_t* to) {
  for (std::size_t i = 0; i < kGroupBytes; ++i) to[i] = static_cast<std::uint8_t>((from[i] >> shift) & mask);
}

void add_bits(const std::uint8_t* from, int shift, std::uint8_t mask, int up, std::uint8_t* to) {
  for (std::size_t i = 0; i < kGroupBytes; ++i)
    to[i] = static_cast<std::uint8_t>(to[i] | ((from[i] >> shift) & mask) << up);
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

// 32 values of a row. `table`: what codes stand for, or null where they are numbers less `zero`. Multiplied
// and added apart, as the reference does.
void write_values(const std::uint8_t* codes, const PackedRowScales& scales, const float* table,
                  std::int32_t zero, float* y) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> du8;
  const std::size_t lanes = hn::Lanes(d);
  const auto minimum = hn::Set(d, scales.minimum);
  for (std::size_t i = 0; i < 32; i += lanes) {
    const auto code = hn::PromoteTo(di, hn::LoadU(du8, codes + i));
    const auto value = table != nullptr ? hn::GatherIndex(d, table, code)
                                        : hn::ConvertTo(d, hn::Sub(code, hn::Set(di, zero)));
    hn::StoreU(hn::Add(hn::Mul(hn::Set(d, scales.scale[i / 16]), value), minimum), d, y + i);
  }
}

void write_row(const GroupCodes& codes, std::int64_t row, const PackedRowScales& scales, const float* table,
               std::int32_t zero, float* y, std::int64_t count) {
  std::array<std::uint8_t, 32> mine;
  for (std::size_t g = 0; g < kGroups; ++g) std::memcpy(mine.data() + 4 * g, codes[g].data() + 4 * row, 4);
  if (count == 32) return write_values(mine.data(), scales, table, zero, y);
  std::array<float, 32> values;
  write_values(mine.data(), scales, table, zero, values.data());
  std::copy_n(values.data(), count, y);
}

void dequantize_panels(const DequantizeRowsArgs& args, const float* table, std::int64_t begin,
                       std::int64_t end) {
  const PackedLayout layout = packed_layout(args.format);
  const std::int64_t rows = args.y.dim(0), cols = args.y.dim(1), blocks = (cols + 31) / 32;
  const std::int32_t zero = layout.zero_shift < 0 ? 0 : 1 << layout.zero_shift;
  const std::size_t all_low = static_cast<std::size_t>(layout.step_blocks) * layout.low_block_bytes();
  GroupCodes codes;
  for (std::int64_t p = begin; p < end; ++p) {
    const std::uint8_t* panel = args.weight.as<std::uint8_t>() + p * args.weight.dim(-1);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::uint8_t* step = panel + layout.panel_header_bytes() +
                                 static_cast<std::size_t>(b / layout.step_blocks) * layout.step_bytes();
      const std::uint8_t* in_step = step + layout.header_bytes();
      const auto at = static_cast<std::size_t>(b % layout.step_blocks);
      unpack_codes(layout, in_step + at * layout.low_block_bytes(),
                   in_step + all_low + at * layout.high_block_bytes(), packed_table_at(layout, step), codes);
      for (std::int64_t row = 0; row < std::min(kPanelRows, rows - p * kPanelRows); ++row) {
        float* y = args.y.as<float>() + (p * kPanelRows + row) * args.y.stride(0) + b * 32;
        write_row(codes, row, read_packed_scales(layout, panel, row, b), table, zero, y,
                  std::min<std::int64_t>(32, cols - b * 32));
      }
    }
  }
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
  return !args.ids && args.format != PackedFormat::f32 && args.y.dtype == DType::f32;
}

void run(const DequantizeRowsArgs& args, Stream) {
  const float* table = values_of_codes(args.format);
  const std::int64_t panels = (args.y.dim(0) + kPanelRows - 1) / kPanelRows;
  parallel_for(panels, 1 + 1024 / std::max<std::int64_t>(args.y.dim(1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(dequantize_panels)(args, table, begin, end);
               });
}

}  // namespace

void register_dequantize_simd() {
  dequantize_rows.add(DeviceType::cpu, {"simd", ImplKind::simd, accepts, run});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
