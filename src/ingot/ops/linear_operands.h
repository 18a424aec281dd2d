#pragma once

#include "ingot/autograd/node.h"
#include "ingot/core/tensor.h"
#include "ingot/core/view.h"

// What the ops and nodes of linear layers share.
namespace ingot {

/// [..., n] as [rows, n]; the view is contiguous, or has rank 2.
View flattened(View view);

/// The operands of x·weightᵀ + bias as the matmuls read them.
struct LinearOperands {
  Tensor x, weight, bias, y;  ///< y: [..., out], still to be computed; bias undefined where there is none
  View flat_x() const { return flattened(x.view()); }
  View flat_y() const { return flattened(y.view()); }
};

/// Checks what linear() takes; y stays undefined. x: [..., in]; weight: [out, in]; bias: [out] or undefined.
/// Throws ShapeMismatch, and what check_defined does, naming `op`.
LinearOperands linear_inputs(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias);
/// The same with y.
LinearOperands linear_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias);
/// Of a weight that is not a tensor of values; `weight` stays undefined.
LinearOperands linear_operands(const char* op, const Tensor& x, const Shape& weight, const Tensor& bias);

/// y = x·weightᵀ + bias
void launch_linear(const LinearOperands& operands);

/// The gradients of a linear layer's weight and bias; either slot may be absent. dy: [rows, out], contiguous
/// where there is a bias; x: [rows, in].
void parameters_backward(Stream stream, const View& dy, const View& x, const GradSlot& dweight,
                         const GradSlot& dbias);
/// The same where they are inputs 1 and 2 of the node.
void parameters_backward(BackwardContext& ctx, const View& dy, const View& x);

}  // namespace ingot
