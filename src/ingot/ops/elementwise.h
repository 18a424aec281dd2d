#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

// Element-wise functions with gradients, on floating tensors of any strides. Results are contiguous. Binary
// ones broadcast as NumPy does and take operands of one dtype; they throw ShapeMismatch where sizes differ.

/// alpha·x + beta
Tensor scale(const Tensor& x, double alpha, double beta = 0);
Tensor neg(const Tensor& x);
/// Its derivative is 0 at 0.
Tensor abs(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x)
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
/// 1 / x
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
/// x to the power of a constant.
Tensor pow(const Tensor& x, double exponent);
/// x limited to [low, high]; the gradient passes inside, limits included.
Tensor clamp(const Tensor& x, double low, double high);

Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor relu(const Tensor& x);
/// x·sigmoid(x)
Tensor silu(const Tensor& x);
/// x·Φ(x), Φ the standard normal's distribution function (Hendrycks and Gimpel 2016).
Tensor gelu_erf(const Tensor& x);
/// Its approximation with tanh, GPT-2's.
Tensor gelu_tanh(const Tensor& x);
/// x·tanh(softplus(x)) (Misra 2019).
Tensor mish(const Tensor& x);
/// log(1 + eˣ)
Tensor softplus(const Tensor& x);
/// The error function, 2/√π ∫₀ˣ e^(−t²) dt.
Tensor erf(const Tensor& x);
/// x where it is positive, else slope·x (Maas et al. 2013).
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x where it is positive, else alpha·(eˣ − 1) (Clevert et al. 2016).
Tensor elu(const Tensor& x, double alpha = 1);
/// Whole numbers below, above and beside (half to even); -1, 0 or 1. Their gradients are 0.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
Tensor sign(const Tensor& x);
/// silu(gate)·up (SwiGLU, Shazeer 2020). One shape.
Tensor silu_mul(const Tensor& gate, const Tensor& up);

/// add, sub and mul take i64 and i32 too.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// The larger of each pair; half of the gradient goes to each where they are equal.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// condition ? a : b; condition is bool. All three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// Comparisons give bool, take any one dtype, broadcast and have no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

/// Sums `x` down to `shape`, that broadcasts to x's: what a broadcast operand's gradient goes through.
Tensor sum_to_shape(const Tensor& x, const Shape& shape);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, double value) { return scale(x, 1, value); }
inline Tensor operator+(double value, const Tensor& x) { return scale(x, 1, value); }
inline Tensor operator-(const Tensor& x, double value) { return scale(x, 1, -value); }
inline Tensor operator-(double value, const Tensor& x) { return scale(x, -1, value); }
inline Tensor operator*(const Tensor& x, double value) { return scale(x, value); }
inline Tensor operator*(double value, const Tensor& x) { return scale(x, value); }
inline Tensor operator/(const Tensor& x, double value) { return scale(x, 1 / value); }
inline Tensor operator/(double value, const Tensor& x) { return scale(reciprocal(x), value); }

// In place, without a graph: y may not require a gradient unless under NoGrad. They bump y's version.

/// y += alpha·x; x broadcasts to y.
void add_(const Tensor& y, const Tensor& x, double alpha = 1);
/// y *= x; x broadcasts to y.
void mul_(const Tensor& y, const Tensor& x);
/// y *= value
void mul_(const Tensor& y, double value);
/// Any dtype.
void fill_(const Tensor& y, double value);
void zero_(const Tensor& y);

}  // namespace ingot
