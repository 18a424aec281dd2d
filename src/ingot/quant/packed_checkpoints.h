#pragma once

#include <string_view>
#include <variant>

#include "ingot/quant/codebook_matrix.h"
#include "ingot/quant/group_matrix.h"

// The layouts of other projects' checkpoints, as their tensors lie in the file. N outputs, K inputs; errors
// are ShapeMismatch, DimensionMismatch and InvalidConfig, and name the layer and the field.
namespace ingot::quant {

/// What a layer of a checkpoint holds: integers in groups, codes for values, or (f32 [N, K]) the values
/// themselves where the layout is one that we have no tiles for.
using CheckpointMatrix = std::variant<GroupMatrix, CodebookMatrix, Tensor>;
/// f32 [N, K].
Tensor values_of(const CheckpointMatrix& matrix);
/// Rows [first, first + rows); rows 0: all. Shares memory.
CheckpointMatrix rows_of(const CheckpointMatrix& matrix, std::int64_t first, std::int64_t rows);
/// In tiles with the same values; null where there are none for it: values, eight bits with zero points, two
/// bits in groups, groups of other than a multiple of 32 columns.
PackedPtr pack(const CheckpointMatrix& matrix, std::string_view name);

/// GPTQ's (AutoGPTQ, GPTQModel), `bits` of 2, 3, 4 or 8: qweight i32 [K · bits / 32, N], element k from bit
/// `bits` · k on in the words of its column; qzeros i32 [G, N · bits / 32]; scales [G, N]; g_idx i32 [K], the
/// group of each input (any order with "desc_act"), may be absent.
struct GptqTensors {
  Tensor qweight, qzeros, scales, g_idx;
  bool zeros_less_one = true;  ///< checkpoint_format "gptq" keeps zero − 1; "gptq_v2" the zero itself
  int bits = 4;
};
GroupMatrix from_gptq(const GptqTensors& tensors, std::string_view name);

/// AWQ's ("gemm"), 4 bits: qweight i32 [K, N / 8], qzeros i32 [G, N / 8], scales [G, N]; the nibbles of a
/// word are the columns 0, 2, 4, 6, 1, 3, 5, 7 of its eight.
struct AwqTensors {
  Tensor qweight, qzeros, scales;
};
GroupMatrix from_awq(const AwqTensors& tensors, std::string_view name);

/// compressed-tensors' "pack-quantized", 4 or 8 bits, P = 32 / bits: packed i32 [N, K / P rounded up], code +
/// 2^(bits − 1) of column k in bits `bits` · (k mod P); scale [N, G]; zero_point i32 [N / P rounded up, G],
/// packed likewise along N, may be absent; g_idx i32 [K], may be absent.
struct PackQuantizedTensors {
  Tensor packed, scale, zero_point, g_idx;
  std::int64_t cols = 0;
  int bits = 4;
};
GroupMatrix from_pack_quantized(const PackQuantizedTensors& tensors, std::string_view name);

/// compressed-tensors' "int-quantized", and bitsandbytes' LLM.int8 (where a scale is SCB / 127): weight i8
/// [N, K], scale [N, G], [N] or one for all; zero_point i8 of the scale's shape, may be absent.
struct Int8Tensors {
  Tensor weight, scale, zero_point;
  float divisor = 1;  ///< of the scale
};
GroupMatrix from_int8(const Int8Tensors& tensors, std::string_view name);

/// FP8 weights: weight f8e4m3 [N, K], scale [N, 1], [N] or one for all; or one for each block of block_rows ·
/// block_cols (DeepSeek's "weight_scale_inv", which multiplies for all its name).
struct Fp8Tensors {
  Tensor weight, scale;
  std::int64_t block_rows = 0, block_cols = 0;  ///< 0: no blocks
};
CheckpointMatrix from_fp8(const Fp8Tensors& tensors, std::string_view name);

/// bitsandbytes' NF4 and FP4: weight [N · K / 2, 1] bytes, whatever dtype they are stored under
/// (bnb_4bit_quant_storage), the first of two neighbours in the high nibble;
/// absmax f32 [blocks], or, with nested_absmax, u8 codes of it; quant_map f32 [16], what codes stand for.
struct Bnb4Tensors {
  Tensor weight, absmax, quant_map;
  Tensor nested_absmax, nested_quant_map;  ///< f32 [blocks / nested_block], f32 [256]
  float nested_offset = 0;
  std::int64_t block = 64, nested_block = 256;
  std::int64_t rows = 0, cols = 0;  ///< N, K
};
CheckpointMatrix from_bnb4(const Bnb4Tensors& tensors, std::string_view name);

/// NVFP4, as compressed-tensors ("nvfp4-pack-quantized") and ModelOpt have it: packed u8 [N, K / 2], the
/// first of two neighbours in the low nibble; scale f8e4m3 [N, K / 16]; global f32, one number, which scales
/// are divided by (compressed-tensors' weight_global_scale) or, `multiplies`, multiplied by (ModelOpt's
/// weight_scale_2).
struct NvFp4Tensors {
  Tensor packed, scale, global;
  bool multiplies = false;
};
CodebookMatrix from_nvfp4(const NvFp4Tensors& tensors, std::string_view name);

/// OpenAI's MXFP4 (gpt-oss): blocks u8 [N, K / 32, 16], the first of two neighbours in the low nibble, and
/// scales u8 [N, K / 32], E8M0.
BlockMatrix from_mxfp4(const Tensor& blocks, const Tensor& scales, std::string_view name);

}  // namespace ingot::quant
