#pragma once

#include <string_view>

#include "ingot/quant/group_matrix.h"

// The 4-bit layouts of other projects' checkpoints, as their tensors lie in the file.
namespace ingot::quant {

/// GPTQ's (AutoGPTQ, GPTQModel), 4 bits, for a layer of K inputs and N outputs:
/// qweight i32 [K / 8, N], element k in bits 4 (k mod 8); qzeros i32 [G, N / 8]; scales [G, N]; g_idx i32
/// [K], the group of each input (any order with "desc_act"), may be absent.
struct GptqTensors {
  Tensor qweight, qzeros, scales, g_idx;
  bool zeros_less_one = true;  ///< checkpoint_format "gptq" keeps zero − 1; "gptq_v2" the zero itself
};
/// [N, K]. ShapeMismatch and InvalidConfig name the layer and the field.
GroupMatrix from_gptq(const GptqTensors& tensors, std::string_view name);

/// AWQ's ("gemm"), 4 bits: qweight i32 [K, N / 8], qzeros i32 [G, N / 8], scales [G, N]; the nibbles of a
/// word are the columns 0, 2, 4, 6, 1, 3, 5, 7 of its eight.
struct AwqTensors {
  Tensor qweight, qzeros, scales;
};
GroupMatrix from_awq(const AwqTensors& tensors, std::string_view name);

}  // namespace ingot::quant
