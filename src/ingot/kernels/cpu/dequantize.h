#pragma once

#include <cstdint>

#include "ingot/core/view.h"
#include "ingot/kernels/packed.h"

namespace ingot::kernels::cpu {

/// A piece of a packed matrix: `row` a multiple of kPanelRows, `col` of kPackedBlock.
struct PackedPiece {
  PackedFormat format;
  View weight;  ///< u8 [panels, panel bytes]
  std::int64_t row, rows, col, cols;
};

/// The piece's values, rounded to bf16, as floats without gaps between rows. By all threads.
void dequantize_piece(const PackedPiece& piece, float* to);

}  // namespace ingot::kernels::cpu
