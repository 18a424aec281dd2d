#pragma once

#include <string_view>

#include "ingot/quant/packed_matrix.h"

namespace ingot::quant {

/// A weight [rows, cols] of codes that stand for numbers which are not evenly spaced, with a scale for each
/// group of columns: value = scale · (what the code stands for). NF4 (bitsandbytes), FP8 E4M3, and NVFP4,
/// whose scales are numbers of E4M3 that a scale of the row multiplies. Matmuls take f32 activations: only
/// the weight is rounded.
struct CodebookMatrix {
  kernels::PackedFormat format = kernels::PackedFormat::nf4;  ///< nf4, fp8 or nvfp4
  std::int64_t rows = 0, cols = 0;
  std::int64_t group = 0;  ///< columns
  Tensor codes;            ///< u8 [rows, cols], one a byte
  Tensor scales;           ///< f32 [rows, cols / group, rounded up]
  Tensor row_scales = {};  ///< nvfp4: f32 [rows]

  /// The codes and scales that bitsandbytes gives a matrix whose rows are whole groups: scale = largest
  /// magnitude of the group, the nearest of the 16 values. InvalidConfig where `group` does not divide a row.
  static CodebookMatrix quantize_nf4(const Tensor& w, std::string_view name = "the weight",
                                     std::int64_t group = 64);
  /// torch.float8_e4m3fn with a scale for each row: largest magnitude / 448.
  static CodebookMatrix quantize_fp8(const Tensor& w, std::string_view name = "the weight");
  /// Likewise with a scale for each tile of 128 × 128 (at the ends of rows and columns: what is left), the
  /// same in all rows of a tile, as DeepSeek's checkpoints have it.
  static CodebookMatrix quantize_fp8_tiles(const Tensor& w, std::string_view name = "the weight");
  /// NVFP4 (kernels/nvfp4.h): E2M1, an E4M3 scale for 16 columns, a scale of the whole matrix, largest
  /// magnitude / 2688, the same in all rows. `four_over_six` (Cook et al. 2025): each block's largest
  /// magnitude becomes 6 or 4, whichever has the smaller squared error; the matrix' scale is largest
  /// magnitude / 1536 then, so that scales of either choice are numbers of E4M3. InvalidConfig where 16 does
  /// not divide a row.
  static CodebookMatrix quantize_nvfp4(const Tensor& w, std::string_view name = "the weight",
                                       bool four_over_six = true);
  /// f32 [rows, cols].
  Tensor dequantize() const;
  /// Throws errors that name the weight and the field: groups that are not a multiple of 64 columns (and not
  /// a whole row; of nvfp4 not 16), NaN or infinite scales, NaN codes, scales of nvfp4 that E4M3 lacks.
  void check(std::string_view name) const;
};

/// The rows and columns that have one scale in DeepSeek's FP8.
inline constexpr std::int64_t kFp8Tile = 128;

/// In tiles, with the same values.
PackedPtr pack(const CodebookMatrix& matrix, std::string_view name = "the weight");

}  // namespace ingot::quant
