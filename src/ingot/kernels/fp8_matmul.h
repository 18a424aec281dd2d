#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Elements that share a scale where scales are by blocks.
inline constexpr std::int64_t kFp8Block = 128;

/// c = scaled(a) · scaled(b)ᵀ + bias, or += with `accumulate`: matmul of 8-bit floats (Micikevicius et al.
/// 2022) as training uses them, with the depth adjacent in both. a: [m, k], b: [n, k], contiguous, each
/// f8e4m3 or f8e5m2, not both the latter. c: [m, n], contiguous, f32, bf16 or f16; bias: [n] like c, or
/// absent. Scales are f32 and multiply the stored numbers; two ways:
///   for whole tensors: a_scale and b_scale are [1];
///   for blocks (DeepSeek-V3, 2024): of a, 1 x 128 along the depth: a_scale [m, ceil(k / 128)]; of b, 128 x
///   128: b_scale [ceil(n / 128), ceil(k / 128)], both contiguous.
/// Sums are f32: within a block of the depth, then over the blocks, each multiplied by its scales.
struct Fp8MatmulArgs {
  View a, b, c;
  View a_scale, b_scale;
  View bias{};
  bool accumulate = false;
};
inline Kernel<Fp8MatmulArgs> fp8_matmul("fp8_matmul");
inline double flops(const Fp8MatmulArgs& args) {
  return 2 * static_cast<double>(args.c.numel()) * static_cast<double>(args.a.dim(-1));
}

/// Whether scales are by blocks; one block of the whole depth otherwise.
inline bool has_block_scales(const Fp8MatmulArgs& args) { return args.a_scale.rank == 2; }

}  // namespace ingot::kernels
