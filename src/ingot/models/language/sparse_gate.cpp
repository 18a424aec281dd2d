#include "ingot/models/language/sparse_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"

namespace ingot {

double normal_probability(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

// Newton's method; steps are short, since far from the middle the density is next to nothing.
double normal_quantile(double p) {
  constexpr int kMostSteps = 200;
  double x = 0;
  for (int i = 0; i < kMostSteps; ++i) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = std::clamp((normal_probability(x) - p) / density, -0.5, 0.5);
    x -= step;
    if (std::abs(step) < 1e-15) break;
  }
  return x;
}

Tensor above_cutoff(const Tensor& x, double deviations) {
  const Tensor wide = to(x, accumulator_dtype(x.dtype()));  // what is left is a difference of near numbers
  const Tensor centred = wide - mean(wide, {-1}, true);
  // A root has no gradient at 0, where all numbers of a row are the same.
  const Tensor variance =
      clamp(mean(square(centred), {-1}, true), 1e-30, std::numeric_limits<double>::infinity());
  return to(relu(centred - sqrt(variance) * deviations), x.dtype());
}

}  // namespace ingot
