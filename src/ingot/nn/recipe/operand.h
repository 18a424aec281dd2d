#pragma once

#include <cstdint>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// One operand of a matmul, rounded to a format: codes · scale. [rows, depth]; a recipe's matmuls
/// run along the depth. None of these functions records gradients.
struct Operand {
  Tensor codes;  ///< contiguous, or rows of a wider matrix; bf16, f8e4m3, f8e5m2, i8, f32: numbers of any
                 ///< format that f32 holds exactly
  Tensor scale;  ///< f32 [1], or [rows, 1] of one that is not transposed; undefined: 1
  bool transposed = false;  ///< the operand is codesᵀ

  Operand transpose() const { return {codes, scale, !transposed}; }
  /// codes as f32 [rows, depth], in any strides.
  Tensor numbers() const;
};

/// f32 [rows, depth] = codes · scale: what the operand stands for.
Tensor values(const Operand& operand);

/// c (+)= a·bᵀ + bias, added up in f32 before scales and bias: c = (Σ codes·codes) · (scale · scale) + bias.
/// c: [a's rows, b's rows], contiguous, f32, bf16 or f16; bias: [b's rows] like c, or absent. Numbers of
/// eight bits multiply as such where the device has instructions for them.
void multiply(const Operand& a, const Operand& b, const View& c, bool accumulate = false,
              const View& bias = {});

/// Whether multiply() may multiply numbers of eight bits as such on this device.
bool has_fp8_matmul(Device device);

/// The largest magnitude, f32 [1]; NaN where there is one.
Tensor largest_magnitude(const Tensor& x);

/// x [rows, depth] unrounded.
Operand unrounded(const Tensor& x);
/// To bf16.
Operand round_to_bf16(const Tensor& x);
/// To E4M3 or E5M2: codes = x · scale, to nearest even, and at most the largest finite number. scale: f32
/// [1].
Operand round_to_fp8(const Tensor& x, const Tensor& scale, DType format);
/// largest number of the format / amax, f32 like amax; where amax is 0, infinite or no number, it is
/// `otherwise`, of amax' shape.
Tensor fp8_scale(const Tensor& amax, DType format, const Tensor& otherwise);
/// To -1, 0 or 1 times quant::ternary_scale(): the values of the `ternary` format.
Operand round_to_ternary(const Tensor& x);

/// To NVFP4 (kernels/nvfp4.h), with blocks of 16 x 16 or of 16 along the depth. Stochastic where `key` is
/// given.
struct Nvfp4Rounding {
  bool square = false, stochastic = false;
  RngKey key = {};
};
Operand round_to_nvfp4(const Tensor& x, const Nvfp4Rounding& how);
/// 16 neighbours of x's columns at a time times a random Hadamard matrix, of x transposed: x [rows, n] gives
/// f32 [n, rows rounded up to 16].
Tensor hadamard_by_rows(const Tensor& x);

/// x [rows, depth] as int8 codes with a scale for each row (block 0) or for 32 columns, by the rule of
/// matmuls with quantized weights (kernels/quantized.h): u8 [rows, bytes], to be kept for a backward pass.
Tensor round_to_int8(const Tensor& x, std::int64_t block);
/// What such bytes stand for; of `block` 32 as values, without a scale.
Operand int8_operand(const Tensor& bytes, std::int64_t depth, std::int64_t block);

}  // namespace ingot
