#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ingot/core/dtype.h"

namespace ingot {

inline constexpr std::size_t kMaxGgufAxes = 4;  ///< of a tensor in a GGUF file (GGML_MAX_DIMS)

/// An element type of GGUF files: `block_elements` neighbours of a row share `block_bytes`.
struct GgmlType {
  std::uint32_t id;
  std::string_view name;  ///< "Q4_K"
  std::uint32_t block_elements, block_bytes;
  std::optional<DType> dtype;  ///< of types that are plain numbers

  /// Bytes of `elements` in whole blocks.
  std::uint64_t bytes(std::uint64_t elements) const { return elements / block_elements * block_bytes; }
};

/// All types that ggml has or had sizes for (https://github.com/ggml-org/ggml/blob/master/include/ggml.h).
std::span<const GgmlType> ggml_types();
/// Null for an unknown one.
const GgmlType* find_ggml_type(std::uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);
/// Null for a dtype that GGUF files cannot hold (u8, bool, f8).
const GgmlType* ggml_type_of(DType dtype);

}  // namespace ingot
