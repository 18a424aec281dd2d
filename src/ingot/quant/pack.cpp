// Writes blocks into tiles; kernels/packed.h says how those lie.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/dtype.h"
#include "ingot/kernels/nvfp4.h"
#include "ingot/kernels/quantized.h"
#include "ingot/quant/codebook_matrix.h"
#include "ingot/quant/floats.h"
#include "ingot/quant/group_matrix.h"
#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {
namespace {

using kernels::PackedFormat;
using kernels::PackedLayout;
using kernels::PackedScales;
using kernels::PackedTable;
constexpr auto kRows = static_cast<std::size_t>(kernels::kPanelRows);

void put_half(std::uint8_t* to, std::size_t index, float value) {
  const std::uint16_t bits = f16(value).bits;
  std::memcpy(to + 2 * index, &bits, 2);
}

// What one row gives to one step.
void write_header(const PackedLayout& layout, const BlockParts* parts, std::size_t row, std::uint8_t* step) {
  const auto blocks = static_cast<std::size_t>(layout.step_blocks);
  switch (layout.scales) {
    case PackedScales::flat:
      for (std::size_t b = 0; b < blocks; ++b) put_half(step, b * 16 + row, parts[b].d);
      break;
    case PackedScales::flat_min:
      for (std::size_t b = 0; b < blocks; ++b) {
        put_half(step, b * 32 + row, parts[b].d);
        put_half(step, b * 32 + 16 + row, -parts[b].dmin);
      }
      break;
    case PackedScales::super_min:
      put_half(step, row, parts[0].d);
      put_half(step, 16 + row, parts[0].dmin);
      for (std::size_t b = 0; b < blocks; ++b) {
        step[64 + b * 16 + row] = static_cast<std::uint8_t>(parts[0].scales[b]);
        step[64 + (blocks + b) * 16 + row] = parts[0].mins[b];
      }
      break;
    case PackedScales::group_zero:
      put_half(step, row, parts[0].d);
      step[32 + row] = parts[0].mins[0];
      break;
    case PackedScales::values:
      std::memcpy(step + 4 * row, &parts[0].d, 4);
      break;
    case PackedScales::none:
    case PackedScales::row:
      break;
    case PackedScales::e4m3:
      std::copy_n(parts[0].mins.begin(), 4, step + 4 * row);
      break;
    case PackedScales::super_halves:
      put_half(step, row, parts[0].d);
      for (std::size_t h = 0; h < 2 * blocks; ++h)
        step[64 + h * 16 + row] = static_cast<std::uint8_t>(parts[0].scales[h]);
      break;
  }
}

// Four codes at a time, as one word. The step's bytes are 0 before the first row.
void write_codes(const PackedLayout& layout, const std::uint8_t* codes, std::size_t row, std::uint8_t* step) {
  const std::size_t blocks = static_cast<std::size_t>(layout.step_blocks);
  std::uint8_t* low = step + layout.header_bytes();
  std::uint8_t* high = low + blocks * layout.low_block_bytes();
  const auto add = [row](std::uint8_t* vector, std::uint32_t word) {
    std::uint32_t old = 0;
    std::memcpy(&old, vector + 4 * row, 4);
    old |= word;
    std::memcpy(vector + 4 * row, &old, 4);
  };
  for (std::size_t b = 0; b < blocks;
       ++b, low += layout.low_block_bytes(), high += layout.high_block_bytes()) {
    for (std::size_t g = 0; g < 8; ++g) {
      std::uint32_t word = 0;
      std::memcpy(&word, codes + b * 32 + g * 4, 4);
      if (layout.low_bits == 8) {
        add(low + g * 64, word);
        continue;
      }
      if (layout.low_bits == 4) add(low + g % 4 * 64, (word & 0x0f0f0f0fU) << (4 * (g / 4)));
      if (layout.low_bits == 2) add(low + g % 2 * 64, (word & 0x03030303U) << (2 * (g / 2)));
      const std::uint32_t upper = word >> layout.low_bits;
      if (layout.high_bits == 1) add(high, (upper & 0x01010101U) << g);
      if (layout.high_bits == 2) add(high + g / 4 * 64, (upper & 0x03030303U) << (2 * (g % 4)));
    }
  }
}

// Reads the blocks of one step of a row; blocks beyond the row's end have scale 0 and codes that mean 0.
struct StepReader {
  const BlockMatrix& matrix;
  const PackedLayout& layout;
  std::array<std::uint8_t, 256> tile_codes{};  // by the code in a block
  std::array<BlockParts, 8> parts{};
  std::array<std::uint8_t, 256> codes{};

  StepReader(const BlockMatrix& matrix_, const PackedLayout& layout_) : matrix(matrix_), layout(layout_) {
    const BlockFormat& format = *matrix.format;
    if (layout.table != PackedTable::none) {
      for (std::size_t i = 0; i < format.levels.size(); ++i)
        tile_codes[static_cast<std::size_t>(format.levels[i] + format.zero)] = static_cast<std::uint8_t>(i);
      return;
    }
    const int shift = layout.zero_shift < 0 ? 0 : (1 << layout.zero_shift) - format.zero;  // Q3_K in q6_k
    for (std::size_t i = 0; i < tile_codes.size(); ++i)
      tile_codes[i] = static_cast<std::uint8_t>(static_cast<int>(i) + shift);
  }

  void read(std::int64_t row, std::int64_t step) {
    const BlockFormat& format = *matrix.format;
    const std::int64_t per_step = layout.step_cols() / format.elements,
                       row_blocks = matrix.cols / format.elements;
    const std::byte* bytes = static_cast<const std::byte*>(matrix.blocks.view().data) +
                             static_cast<std::size_t>(row) * format.row_bytes(matrix.cols);
    for (std::int64_t i = 0; i < per_step; ++i) {
      BlockParts& part = parts[static_cast<std::size_t>(i)];
      const std::int64_t block = step * per_step + i;
      if (block < row_blocks) {
        format.unpack(bytes + static_cast<std::size_t>(block) * format.bytes, part);
      } else {
        part = {};
        part.codes.fill(static_cast<std::uint8_t>(format.zero));
      }
      for (std::int64_t k = 0; k < format.elements; ++k)
        codes[static_cast<std::size_t>(i * format.elements + k)] =
            tile_codes[part.codes[static_cast<std::size_t>(k)]];
    }
    spread_scales();
  }

 private:
  // As the header has them: d as the file has it, a scale for 16 columns also where 32 share one.
  void spread_scales() {
    if (layout.table == PackedTable::header) parts[0].d /= matrix.format->unit;
    if (layout.scales == PackedScales::group_zero)
      parts[0].mins[0] = static_cast<std::uint8_t>(matrix.format->zero);
    if (layout.scales != PackedScales::super_halves || matrix.format->group == 16) return;
    for (std::size_t h = 16; h-- > 0;) parts[0].scales[h] = parts[0].scales[h / 2];
  }
};

constexpr std::string_view kMxFp4 = "MXFP4";

// Whether every scale that counts is an f16 number: powers of two from 2^−24 to 2^15.
bool has_half_scales(const BlockMatrix& matrix) {
  const BlockFormat& format = *matrix.format;
  const auto* blocks = static_cast<const std::byte*>(matrix.blocks.view().data);
  BlockParts parts;
  for (std::int64_t b = 0; b < matrix.rows * matrix.cols / format.elements; ++b) {
    format.unpack(blocks + static_cast<std::size_t>(b) * format.bytes, parts);
    if (static_cast<float>(f16(parts.d)) == parts.d) continue;
    const auto* codes = parts.codes.data();
    if (!std::all_of(codes, codes + format.elements, [&](int code) { return code == format.zero; }))
      return false;
  }
  return true;
}

PackedFormat target_format(const BlockFormat& format) {
  if (format.name == "Q3_K") return PackedFormat::q6_k;
  if (format.group == 256) return PackedFormat::q2_g256;  // TQ1_0, TQ2_0
  for (int i = 0; i < kernels::kPackedFormats; ++i) {
    const auto candidate = static_cast<PackedFormat>(i);
    if (find_block_format(kernels::packed_layout(candidate).name) == &format) return candidate;
  }
  if (!format.levels.empty()) return PackedFormat::codebook;
  return PackedFormat::q8_0;
}

// Fills tiles with what `make_reader()` reads, row by row: its read(row, step) leaves parts and codes.
template <class MakeReader>
void fill_tiles(PackedMatrix& result, const PackedLayout& layout, MakeReader&& make_reader) {
  const std::int64_t panels = (result.rows + kernels::kPanelRows - 1) / kernels::kPanelRows;
  const std::size_t panel_bytes = layout.panel_bytes(result.cols);
  result.data = Tensor::zeros({panels, static_cast<std::int64_t>(panel_bytes)}, DType::u8);
  auto* data = result.data.data<std::uint8_t>();
  parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    auto reader = make_reader();
    for (std::int64_t panel = begin; panel < end; ++panel) {
      for (std::size_t row = 0; row < kRows; ++row) {
        const std::int64_t at = panel * kernels::kPanelRows + static_cast<std::int64_t>(row);
        if (at >= result.rows) break;  // the rest of the last panel stays 0, and is not written out
        std::uint8_t* step = data + static_cast<std::size_t>(panel) * panel_bytes;
        if (layout.panel_header_bytes() > 0) {
          reader.read(at, 0);
          std::memcpy(step + 4 * row, &reader.parts[0].d, 4);
          step += layout.panel_header_bytes();
        }
        for (std::int64_t s = 0; s < layout.steps(result.cols); ++s, step += layout.step_bytes()) {
          reader.read(at, s);
          write_header(layout, reader.parts.data(), row, step);
          write_codes(layout, reader.codes.data(), row, step);
        }
      }
    }
  });
}

// The format's table in the header of every step.
void write_tables(PackedMatrix& result, const PackedLayout& layout, const BlockFormat& format) {
  std::array<std::uint8_t, 16> table{};
  std::ranges::transform(format.levels, table.begin(),
                         [](std::int8_t level) { return static_cast<std::uint8_t>(level + 128); });
  auto* step = result.data.data<std::uint8_t>();
  for (const std::uint8_t* end = step + result.data.nbytes(); step < end; step += layout.step_bytes()) {
    std::memcpy(step + kernels::kTableAt, table.data(), table.size());
    std::memcpy(step + kernels::kUnitAt, &format.unit, sizeof format.unit);
  }
}

// Reads one step of a row of a GroupMatrix.
struct GroupReader {
  const GroupMatrix& matrix;
  const PackedLayout& layout;
  std::array<BlockParts, 8> parts{};
  std::array<std::uint8_t, 256> codes{};

  void read(std::int64_t row, std::int64_t step) {
    const std::int64_t groups = matrix.scales.dim(1), part_cols = layout.step_cols() / part_count();
    for (std::int64_t i = 0; i < part_count(); ++i) {
      BlockParts& part = parts[static_cast<std::size_t>(i)];
      const std::int64_t col = step * layout.step_cols() + i * part_cols;
      const std::int64_t group = row * groups + std::min(col / matrix.group, groups - 1);
      part.d = col < matrix.cols ? matrix.scales.data<float>()[group] : 0;
      part.mins[0] = matrix.zeros.data<std::uint8_t>()[group];
    }
    const std::int64_t begin = step * layout.step_cols(),
                       count = std::min(layout.step_cols(), matrix.cols - begin);
    codes.fill(0);
    std::copy_n(matrix.codes.data<std::uint8_t>() + row * matrix.cols + begin, count, codes.data());
  }
  // Scales in a step: one, or one per block.
  std::int64_t part_count() const {
    return layout.scales == PackedScales::group_zero ? 1 : layout.step_blocks;
  }
};

// Reads one step of a row of a CodebookMatrix. Codes beyond the row's end are never multiplied.
struct ValueReader {
  const CodebookMatrix& matrix;
  const PackedLayout& layout;
  std::array<BlockParts, 1> parts{};
  std::array<std::uint8_t, 64> codes{};

  void read(std::int64_t row, std::int64_t step) {
    const std::int64_t begin = step * layout.step_cols(),
                       count = std::min(layout.step_cols(), matrix.cols - begin);
    if (layout.scales == PackedScales::e4m3)
      read_e4m3(row, begin, count);
    else
      parts[0].d = matrix.scales.data<float>()[row * matrix.scales.dim(1) + begin / matrix.group];
    codes.fill(0);
    std::copy_n(matrix.codes.data<std::uint8_t>() + row * matrix.cols + begin, count, codes.data());
  }

  // The scales of the step's groups, and the row's own.
  void read_e4m3(std::int64_t row, std::int64_t begin, std::int64_t count) {
    parts[0].d = matrix.row_scales.data<float>()[row];
    parts[0].mins.fill(0);
    const float* scales =
        matrix.scales.data<float>() + row * matrix.scales.dim(1) + begin / kernels::kNvfp4Block;
    for (std::int64_t i = 0; i < count / kernels::kNvfp4Block; ++i)
      parts[0].mins[static_cast<std::size_t>(i)] = f8e4m3(scales[i]).bits;
  }
};

PackedFormat target_format(const GroupMatrix& matrix) {
  if (matrix.bits == 8) return PackedFormat::q8_0;
  if (matrix.bits == 2) return PackedFormat::q2_g256;
  return matrix.group % 128 == 0  ? PackedFormat::q4_g128
         : matrix.group % 64 == 0 ? PackedFormat::q4_g64
                                  : PackedFormat::q4_g32;
}

}  // namespace

PackedPtr pack(const GroupMatrix& matrix, std::string_view name) {
  matrix.check(name);
  auto result = std::make_shared<PackedMatrix>();
  result->format = target_format(matrix);
  result->rows = matrix.rows;
  result->cols = matrix.cols;
  result->order = matrix.order;
  const PackedLayout layout = kernels::packed_layout(result->format);
  fill_tiles(*result, layout, [&] { return GroupReader{.matrix = matrix, .layout = layout}; });
  return result;
}

PackedPtr pack_row_scaled(const GroupMatrix& matrix, std::string_view name) {
  matrix.check(name);
  INGOT_CHECK(matrix.bits == 8 && matrix.group == matrix.cols && !matrix.order.defined(),
              InvalidConfig(std::string(name), "w8a8 takes 8 bits with one scale for a whole row"));
  INGOT_CHECK(matrix.cols <= kernels::kMostRowScaledCols,
              InvalidConfig(std::string(name),
                            fmt::format("a row has {} columns; w8a8 sums up to {} without overflow",
                                        matrix.cols, kernels::kMostRowScaledCols)));
  auto result = std::make_shared<PackedMatrix>();
  result->format = PackedFormat::w8a8;
  result->rows = matrix.rows;
  result->cols = matrix.cols;
  const PackedLayout layout = kernels::packed_layout(result->format);
  fill_tiles(*result, layout, [&] { return GroupReader{.matrix = matrix, .layout = layout}; });
  return result;
}

PackedPtr pack(const CodebookMatrix& matrix, std::string_view name) {
  matrix.check(name);
  auto result = std::make_shared<PackedMatrix>();
  result->format = matrix.format;
  result->rows = matrix.rows;
  result->cols = matrix.cols;
  const PackedLayout layout = kernels::packed_layout(result->format);
  fill_tiles(*result, layout, [&] { return ValueReader{.matrix = matrix, .layout = layout}; });
  return result;
}

namespace {

// Rows [first, first + rows) of a matrix as a panel of floats.
void fill_f32_panel(const View& w, std::int64_t first, std::int64_t rows, float* to) {
  const auto* from = w.as<float>() + first * w.stride(0);
  if (w.stride(0) == 1) {  // the transpose of a matrix
    for (std::int64_t c = 0; c < w.dim(1); ++c)
      std::copy_n(from + c * w.stride(1), rows, to + c * kernels::kPanelRows);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row, from += w.stride(0)) {
    for (std::int64_t c = 0; c < w.dim(1); ++c) to[c * kernels::kPanelRows + row] = from[c * w.stride(1)];
  }
}

}  // namespace

PackedPtr pack_f32(const Tensor& w, std::string_view name) {
  const bool as_it_is = w.defined() && w.rank() == 2 && w.dtype() == DType::f32;
  const Tensor wide = as_it_is ? w : as_floats(w, name);
  auto result = std::make_shared<PackedMatrix>();
  result->format = PackedFormat::f32;
  result->rows = wide.dim(0);
  result->cols = wide.dim(1);
  const std::int64_t panels = (result->rows + kernels::kPanelRows - 1) / kernels::kPanelRows;
  const auto panel_bytes =
      static_cast<std::int64_t>(kernels::packed_layout(result->format).panel_bytes(result->cols));
  result->data = Tensor::zeros({panels, panel_bytes}, DType::u8);
  parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      auto* to = reinterpret_cast<float*>(result->data.data<std::uint8_t>() + panel * panel_bytes);
      const std::int64_t first = panel * kernels::kPanelRows;
      fill_f32_panel(wide.view(), first, std::min(kernels::kPanelRows, result->rows - first), to);
    }
  });
  return result;
}

PackedPtr pack(const BlockMatrix& matrix) {
  const PackedFormat target = target_format(*matrix.format);
  const bool again = matrix.format->name == kMxFp4
                         ? !has_half_scales(matrix)
                         : target == PackedFormat::q8_0 && matrix.format->name != "Q8_0";
  if (again) return pack(BlockMatrix::quantize(matrix.dequantize(), *find_block_format("Q8_0")));
  const PackedLayout layout = kernels::packed_layout(target);
  auto result = std::make_shared<PackedMatrix>();
  result->format = target;
  result->rows = matrix.rows;
  result->cols = matrix.cols;
  fill_tiles(*result, layout, [&] { return StepReader(matrix, layout); });
  if (layout.table == PackedTable::header) write_tables(*result, layout, *matrix.format);
  return result;
}

}  // namespace ingot::quant
