#pragma once

// Matmuls on tensor cores, for GPUs of compute capability 8.0 and newer: a warp multiplies 16 x 16 by 16 x
// 8 values of 16 bits into sums in f32. Which lane holds what is laid down by PTX (mma.m16n8k16, ldmatrix).
// With g = lane / 4 and t = lane % 4, "positions" are the pairs of neighbours at 2t and 2t + 8 of the depth.
namespace ingot::kernels::cuda {

/// 16 rows and a depth of 16, two values to a register: rows g and g + 8 at position 2t, then both at 2t + 8.
struct LeftFragment {
  unsigned values[4];
};
/// A depth of 16 and 8 columns: column g at positions 2t and 2t + 8.
struct RightFragment {
  unsigned values[2];
};
/// 16 rows and 8 columns: row g, columns 2t and 2t + 1; then the same of row g + 8.
struct SumFragment {
  float values[4] = {};
};

}  // namespace ingot::kernels::cuda
