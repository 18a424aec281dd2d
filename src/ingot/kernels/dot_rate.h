#pragma once

namespace ingot::kernels {

/// Operations per second (two to a product) of int8 dot products on all threads, with operands that stay in
/// registers: what no int8 matmul exceeds.
struct DotRates {
  double alone = 0;
  /// With what a quantized format's matmul adds for each block of 32 columns: the conversion of its sum, the
  /// product of its two scales, a fused multiply-add.
  double with_scales = 0;
};

/// Takes some 50 ms. Measured on the CPU, by kernels/cpu. Zeros where the processor has no AVX-512 VNNI, or
/// INGOT_BACKEND forbids it.
DotRates measure_dot_rates();

}  // namespace ingot::kernels
