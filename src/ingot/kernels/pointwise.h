#pragma once

#include <span>

#include "ingot/kernels/elementwise.h"

namespace ingot::kernels {

/// One step of a chain of element-wise operations. Values have numbers: the inputs come first, then the
/// result of each step in turn.
struct PointwiseStep {
  enum class Kind : std::uint8_t {
    unary,           ///< of a
    unary_backward,  ///< saved a, dy b
    binary,          ///< a, b
    binary_backward  ///< a, b, dy c
  };
  Kind kind = Kind::unary;
  UnaryOp unary = UnaryOp::scale;
  BinaryOp binary = BinaryOp::add;
  int a = 0, b = 0, c = 0;
  double alpha = 1, beta = 0;  ///< of unary and unary_backward
  int sum = -1;                ///< the result is added to this value before it is rounded; -1: it is not
};

inline constexpr std::size_t kMostPointwiseInputs = 8;

/// y = the result of the last step. Inputs and y are contiguous, of one shape and one floating dtype, to
/// which the result of every step is rounded: the bits are those of one kernel after the other. With
/// `accumulate` the last result, not yet rounded, is added to y.
struct PointwiseArgs {
  std::span<const View> inputs;
  View y;
  std::span<const PointwiseStep> steps;
  bool accumulate = false;
};
inline Kernel<PointwiseArgs> pointwise("pointwise");

}  // namespace ingot::kernels
