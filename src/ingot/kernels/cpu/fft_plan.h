#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace ingot::kernels::cpu {

/// One pass of a Stockham transform: `count` butterflies of `radix` elements, each for `inner` neighbours.
struct FftStage {
  std::int64_t radix, count, inner;
  std::size_t
      twiddles;  ///< offset: for each butterfly p and each j from 1 to radix − 1, e^(−2πi·pj/(radix·count))
  std::size_t
      roots;  ///< offset: e^(−2πi·j/radix) for j below radix; of radices that have no code of their own
};

/// How to transform n complex numbers: stages for the prime factors of n, or, where one of those is large,
/// Bluestein's convolution through a transform of a power of two. Numbers are pairs (re, im), rounded from
/// f64.
struct FftPlan {
  std::int64_t n = 1;
  std::vector<FftStage> stages;
  std::vector<float> numbers;  ///< what the stages' offsets count in floats

  std::unique_ptr<FftPlan> convolution;  ///< Bluestein: the transform of length m
  std::vector<float> chirp;              ///< e^(−πi·t²/n), t below n
  std::vector<float> spectrum;           ///< transform of the conjugate chirp around 0, divided by m

  /// Elements that a transform works on: n, or Bluestein's m.
  std::int64_t work_length() const { return convolution ? convolution->n : n; }
};

/// The plan for n, made at the first call and kept. Any thread.
const FftPlan& fft_plan(std::int64_t n);

}  // namespace ingot::kernels::cpu
