#pragma once

#include "ingot/nn/param_source.h"
#include "ingot/nn/parameter.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// xIELU (Huang and Schlag 2024, arXiv:2411.13010), of which two numbers are learned: p·x² + beta·x where x
/// is positive, else n·(exp(min(x, eps)) − 1 − x) + beta·x; p = softplus(alpha_p), n = beta +
/// softplus(alpha_n).
struct Xielu {
  explicit Xielu(const ParamSource& source);
  Tensor operator()(const Tensor& x) const;
  void visit(ParamVisitor& v);

  Parameter alpha_p, alpha_n;  ///< [1]
  Parameter beta, eps;         ///< [1]; checkpoints have them, and nothing trains them
};

}  // namespace ingot
