#pragma once

#include <cstdint>
#include <span>

// Scales of the K-quants: least squares over a few candidate ranges. The idea is that of k-means with one
// step: round with a candidate scale, then solve for the scale (and minimum) that fits those codes best.
namespace ingot::quant::blocks {

/// What the error of each value counts where its column has an importance: importance · √(spread + x²), as in
/// llama.cpp; `spread` is the mean square of the block's values.
void weigh(std::span<const float> x, const float* importance, float spread, float* weights);
float mean_square(std::span<const float> x);

struct AffineFit {
  float scale = 0, minimum = 0;  ///< value = scale · code − minimum; neither is negative
};

/// How the candidates of fit_affine are spread: ranges of (first + i · step + top) codes, i = 0 ... count.
struct AffineSearch {
  int top;  ///< the largest code
  float first, step;
  int count;
  bool absolute_error;  ///< compare candidates by absolute, not squared, error
};
AffineFit fit_affine(std::span<const float> x, std::span<const float> weights, const AffineSearch& search);

/// The scale of value = scale · code with codes −top ... top − 1 that fits best; it may be negative.
float fit_symmetric(std::span<const float> x, std::span<const float> weights, int top);

/// The scale of value = scale · level that fits best, of either sign. `levels` rise.
float fit_levels(std::span<const float> x, std::span<const float> weights,
                 std::span<const std::int8_t> levels);

/// The index of the level nearest to x, the lower one of two that are as near.
std::uint8_t nearest_level(float x, std::span<const std::int8_t> levels);

/// round(x / scale), clamped; 0 for a scale of 0.
int nearest_code(float x, float scale, int low, int high);

}  // namespace ingot::quant::blocks
