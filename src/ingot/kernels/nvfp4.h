#pragma once

#include "ingot/base/rng.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// NVFP4 (NVIDIA 2025, "Pretraining large language models with NVFP4"), by TransformerEngine's definition:
// numbers of E2M1 (0, ½, 1, 1½, 2, 3, 4, 6 and their negatives) with a scale of E4M3 for each block and one
// of f32 for the tensor.

inline constexpr std::int64_t kNvfp4Block = 16;
inline constexpr float kE2m1Largest = 6, kE4m3Largest = 448;

/// y = (number of E2M1) · (scale of the block), both exact in f32, so that x ≈ y / S with the tensor's scale
/// S = 448 · 6 / amax, at most the largest f32; 1 where amax is 0 or infinite. A block's scale is
/// E4M3(largest magnitude in it / 6 · S), at most 448; its numbers are those of x · min(1 / (scale · (1 /
/// S)), largest f32), limited to ±6. A NaN makes its block NaN. x, y: f32 [rows, cols], contiguous; amax: f32
/// [1]. Blocks are 1 x 16, the last of a row may be shorter, or `square`: 16 x 16. Rounding is to nearest
/// even or, `stochastic`, to one of the two neighbours, with probabilities whose mean is the number itself;
/// element i of the matrix takes word i of the key's uniform stream.
struct RoundNvfp4Args {
  View x, amax, y;
  bool square = false, stochastic = false;
  RngKey key{};
};
inline Kernel<RoundNvfp4Args> round_nvfp4("round_nvfp4");

/// y = x, 16 neighbours along the depth at a time, each times the matrix D·H / 4: random signs D, the same in
/// every run (TransformerEngine's), and the Hadamard matrix H of Sylvester's construction. Products of two
/// matrices along the depth stay the same, and outliers are spread over their neighbours. x: f32 [rows,
/// depth], any strides, filled up with zeros; y: f32 [rows, depth rounded up to 16], contiguous. The sums of
/// sixteen are f32, added up in pairs.
struct HadamardArgs {
  View x, y;
};
inline Kernel<HadamardArgs> hadamard("hadamard");

/// Bit i is set where the sign of position i is negative.
inline constexpr unsigned kHadamardSigns = 0b1101'0111'1110'1000;

}  // namespace ingot::kernels
