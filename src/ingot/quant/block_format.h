#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot::quant {

inline constexpr std::size_t kMaxBlock = 256;       ///< elements of the largest block
inline constexpr std::size_t kMaxBlockGroups = 16;  ///< groups of elements that have a scale of their own

/// One block of a GGUF format taken apart into what the file stores:
///
///     value[i] = (d · scales[g]) · (codes[i] − zero) − dmin · mins[g],   g = i / group
///
/// `zero` and `group` are the format's. Formats without a second level have scales of 1.
struct BlockParts {
  float d = 0, dmin = 0;
  std::array<std::int8_t, kMaxBlockGroups> scales{};
  std::array<std::uint8_t, kMaxBlockGroups> mins{};
  std::array<std::uint8_t, kMaxBlock> codes{};
};

/// One block format of GGUF (the layouts of ggml). A new one is a file in blocks/ and a row of the table.
struct BlockFormat {
  std::string_view name;  ///< as GGUF calls it: "Q4_K"
  int gguf_type;          ///< its number in a GGUF file
  std::int64_t elements;  ///< of one block; divides every row
  std::size_t bytes;      ///< of one block
  int group;              ///< elements that share a scale
  int zero;               ///< what is subtracted from a code
  bool has_min;
  /// What codes less zero can be, where they are not a range of whole numbers: at most 16.
  std::span<const std::int8_t> levels = {};
  /// What unpack() has multiplied the file's d with, a power of two.
  float unit = 1;
  void (*unpack)(const std::byte* block, BlockParts& parts);
  /// Rounds `elements` values to one block. The values are finite. `importance`: what the error of each
  /// counts, or null; Q8_0, MXFP4 and the ternary formats take none. Null where the format is only read.
  void (*quantize)(const float* values, const float* importance, std::byte* block);

  bool is_written() const { return quantize != nullptr; }
  std::size_t row_bytes(std::int64_t cols) const { return static_cast<std::size_t>(cols / elements) * bytes; }
};

std::span<const BlockFormat> block_formats();
/// Null where the name (in any case) is none of the table's.
const BlockFormat* find_block_format(std::string_view name);
const BlockFormat* find_block_format(int gguf_type);

/// NotImplemented where the format is only read.
void check_is_written(const BlockFormat& format);

/// The exact values of whole blocks. Sizes must agree.
void dequantize(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values);
/// Rounds whole blocks; in parallel where there are many. `importance`: of the columns of a row, for values
/// of whole rows; or empty. NotImplemented where the format is only read, NonFinite (which names the element)
/// where a value is NaN or infinite.
void quantize(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks,
              std::span<const float> importance = {});

}  // namespace ingot::quant
