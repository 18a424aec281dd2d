#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/kernels/packed.h"
#include "ingot/quant/block_matrix.h"

namespace ingot::quant {

/// A weight [rows, cols] in the tiles that the kernels run on (kernels/packed.h). Immutable; for inference.
struct PackedMatrix {
  kernels::PackedFormat format{};
  std::int64_t rows = 0, cols = 0;
  Tensor order;  ///< i64 [cols] or none: column i of the tiles goes with column order[i] of x
  Tensor data;   ///< u8 [panels, panel bytes], 64-byte aligned; may share a mapped cache file's memory

  std::string_view format_name() const { return kernels::packed_layout(format).name; }
  std::size_t nbytes() const { return data.nbytes(); }
};

/// How models hold one.
using PackedPtr = std::shared_ptr<const PackedMatrix>;

/// The same values in tiles. Q3_K lies in q6_k's, TQ1_0 and TQ2_0 in q2_g256's, the IQ formats in those of
/// iq4_nl and codebook, all without any change of value. Q2_K is rounded once more, to q8_0, and so is MXFP4
/// where a scale is beyond f16's range.
PackedPtr pack(const BlockMatrix& matrix);

/// A weight (f32, bf16, f16 [rows, cols]) in tiles of f32, nothing rounded: what matmuls of many rows read
/// without rearranging it first. Takes memory of its own. Of any strides.
PackedPtr pack_f32(const Tensor& w, std::string_view name = "the weight");

/// How GroupMatrix::quantize rounds.
struct GroupOptions {
  int bits = 4;              ///< 4 or 8
  std::int64_t group = 128;  ///< columns that share a scale; 0: a whole row ("per channel")
  bool symmetric = true;     ///< the zero point is the middle; otherwise each group has its own (4 bits only)
};

/// The names that quantize_and_pack knows: GGUF's blocks that are written, groups of integers, NF4, FP8,
/// ternary.
std::vector<std::string> quantized_formats();

/// How a format of integer groups rounds, by its name ("int4-g128"); none where it is not such a format.
std::optional<GroupOptions> find_group_options(std::string_view format);

/// Rounds a weight (f32, bf16, f16 [rows, cols]) to a format by name ("q8_0", "int4-g128"; in any case) and
/// packs it; "f32" rounds nothing. InvalidConfig lists the formats where there is none of that name.
PackedPtr quantize_and_pack(const Tensor& w, std::string_view format, std::string_view name = "the weight");

/// Values of whole rows, f32 [ids, cols]: how an embedding is looked up. ids: i64 [ids], on the matrix'
/// device. DimensionMismatch where an id is out of range; on a GPU, where nobody looks, a row of NaN.
Tensor rows(const PackedMatrix& matrix, const Tensor& ids);

/// The whole matrix dequantized, [rows, cols] in `dtype`, on the matrix' device.
Tensor values(const PackedMatrix& matrix, DType dtype = DType::f32);

}  // namespace ingot::quant
