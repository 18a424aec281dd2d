#pragma once

#include <string_view>

#include "ingot/core/tensor.h"
#include "ingot/quant/block_format.h"

namespace ingot::quant {

/// A weight [rows, cols] in the blocks of a GGUF format, row after row, as a file holds it.
struct BlockMatrix {
  const BlockFormat* format = nullptr;
  std::int64_t rows = 0, cols = 0;
  Tensor blocks;  ///< u8 [rows, row bytes], contiguous; may share a mapped file's memory

  /// Rounds w (f32, bf16 or f16 [rows, cols]). `name` is the weight's, for errors: InvalidConfig where a
  /// block does not divide a row, NonFinite.
  static BlockMatrix quantize(const Tensor& w, const BlockFormat& format,
                              std::string_view name = "the weight");
  /// f32 [rows, cols], exact.
  Tensor dequantize() const;
};

/// Throws InvalidConfig (which names the weight) unless the format's blocks divide a row of `cols`.
void check_block_divides(const BlockFormat& format, std::int64_t cols, std::string_view name);

}  // namespace ingot::quant
