#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// One tensor in a file that says nothing about itself: little-endian, row-major values.
struct RawTensor {
  std::string name;  ///< empty: the file's, without its ending
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;      ///< one axis may be -1: as long as the rest of the file gives
  std::optional<std::uint64_t> offset;  ///< bytes before it; none: it follows the one before

  /// "f32[2,3]", "weight=bf16[-1,768]@128", "f32[]". InvalidConfig that says what is wrong.
  static RawTensor parse(std::string_view text);
};

std::vector<RawTensor> parse_raw_tensors(std::span<const std::string> texts);

/// Reads a file as these tensors. FormatError, with the sizes, where one does not fit in, or where bytes are
/// left over after the last (unless that one has an offset, which says that the layout is known);
/// InvalidConfig for names given twice.
std::unique_ptr<WeightSource> open_raw(Blob blob, std::span<const RawTensor> tensors);

}  // namespace ingot
