#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

/// The value that a standard normal variable is below with probability p, 0 < p < 1: by how many deviations a
/// gate's cutoff is above its mean (Gemma 3n's activation_sparsity_pattern).
double normal_quantile(double p);
/// With what probability a standard normal variable is below x.
double normal_probability(double x);
/// By how much each element is above the mean of its row and so many deviations more; 0 where it is not.
Tensor above_cutoff(const Tensor& x, double deviations);

}  // namespace ingot
