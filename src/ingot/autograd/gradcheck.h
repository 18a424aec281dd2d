#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

struct GradcheckOptions {
  double step =
      1e-5;  ///< of the central difference; the error of f64 is least near the cube root of its epsilon
  double tolerance = 1e-6;  ///< allowed |analytic - numeric| / max(1, |numeric|)
};

/// Compares the gradients that `function` records with central differences, in every element of every input
/// that requires a gradient. Inputs are f64 on the CPU; outputs of any shape are weighted by fixed random
/// numbers and summed. Returns what differs first and most, or an empty string.
std::string gradcheck(const std::function<Tensor(std::span<const Tensor>)>& function,
                      const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace ingot
