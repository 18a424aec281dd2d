#pragma once

#include "ingot/base/rng.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Operands of every kernel here have one shape (broadcast axes have stride 0), any strides, and one floating
// dtype unless said otherwise. Arithmetic is f32 (f64 for f64). With `accumulate` results add to what is
// there.

/// scale: alpha·x + beta; pow: x^alpha; clamp: to [alpha, beta]; gelu_erf and gelu_tanh: Hendrycks and Gimpel
/// 2016, exact and approximated; mish: x·tanh(softplus(x)), Misra 2019; leaky_relu and elu: x where x > 0,
/// else alpha·x and alpha·(eˣ − 1) (Maas et al. 2013, Clevert et al. 2016); round: half to even; sign: -1, 1,
/// or x itself where that is 0 or NaN. The rest is what the name says. Steps have a derivative of 0
/// everywhere.
enum class UnaryOp : std::uint8_t {
  scale,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  square,
  reciprocal,
  sin,
  cos,
  sigmoid,
  tanh,
  relu,
  silu,
  gelu_erf,
  gelu_tanh,
  mish,
  softplus,
  pow,
  clamp,
  erf,
  leaky_relu,
  elu,
  floor,
  ceil,
  round,
  sign
};
inline constexpr int kUnaryOps = static_cast<int>(UnaryOp::sign) + 1;

/// Whether the derivative is computed from the result (else from the argument).
constexpr bool derivative_uses_result(UnaryOp op) {
  return op == UnaryOp::exp || op == UnaryOp::sqrt || op == UnaryOp::rsqrt || op == UnaryOp::reciprocal ||
         op == UnaryOp::sigmoid || op == UnaryOp::tanh || op == UnaryOp::relu;
}

/// y = f(x). y may be x.
struct UnaryArgs {
  View x, y;
  UnaryOp op = UnaryOp::scale;
  double alpha = 1, beta = 0;
  bool accumulate = false;
};
inline Kernel<UnaryArgs> unary("unary");

/// dx = dy · f'. `saved` is the result where derivative_uses_result(op), else the argument; absent for scale.
struct UnaryBackwardArgs {
  View saved, dy, dx;
  UnaryOp op = UnaryOp::scale;
  double alpha = 1, beta = 0;
  bool accumulate = false;
};
inline Kernel<UnaryBackwardArgs> unary_backward("unary_backward");

enum class BinaryOp : std::uint8_t { add, sub, mul, div, maximum, minimum };

/// y = a op b. Integers too (i64, i32; no division). maximum and minimum pass a NaN on. y may be a or b.
struct BinaryArgs {
  View a, b, y;
  BinaryOp op = BinaryOp::add;
  bool accumulate = false;
};
inline Kernel<BinaryArgs> binary("binary");

/// dx = dy · ∂(a op b)/∂b for div, ∂/∂a for maximum and minimum (half each where a = b); other ops need no
/// kernel of their own.
struct BinaryBackwardArgs {
  View a, b, dy, dx;
  BinaryOp op = BinaryOp::div;
  bool accumulate = false;
};
inline Kernel<BinaryBackwardArgs> binary_backward("binary_backward");

enum class CompareOp : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

/// y = a op b, as bool. a, b: any one dtype.
struct CompareArgs {
  View a, b, y;
  CompareOp op = CompareOp::equal;
};
inline Kernel<CompareArgs> compare("compare");

/// y = condition ? a : b. condition: bool. An absent a or b is 0.
struct WhereArgs {
  View condition, a, b, y;
  bool accumulate = false;
};
inline Kernel<WhereArgs> where("where");

/// y = silu(gate) · up   (SwiGLU, Shazeer 2020)
struct SiluMulArgs {
  View gate, up, y;
};
inline Kernel<SiluMulArgs> silu_mul("silu_mul");

/// dgate, dup and product may each be absent. product = silu(gate) · up, with silu_mul's bits: who did not
/// keep it has it again without a pass of its own. It may be dy's buffer.
struct SiluMulBackwardArgs {
  View gate, up, dy, dgate, dup;
  bool accumulate_dgate = false, accumulate_dup = false;
  View product;
};
inline Kernel<SiluMulBackwardArgs> silu_mul_backward("silu_mul_backward");

/// y = value. Any dtype.
struct FillArgs {
  View y;
  double value = 0;
};
inline Kernel<FillArgs> fill("fill");

/// y_i = x_i / (1 - p) where u_i >= p, else 0; u_i is element i of `key`'s uniform stream. Its own backward.
/// x, y: contiguous.
struct DropoutArgs {
  View x, y;
  double p = 0;
  RngKey key;
  bool accumulate = false;
};
inline Kernel<DropoutArgs> dropout("dropout");

enum class Distribution : std::uint8_t { uniform, normal };

/// Fills y, contiguous, from `key`. uniform: [a, b); normal: mean a, deviation b. Element i comes from word i
/// of the stream (uniform), or from words 2⌊i/2⌋ and 2⌊i/2⌋+1 by Box and Muller (cosine first, then sine).
struct RandomArgs {
  View y;
  Distribution distribution = Distribution::uniform;
  double a = 0, b = 1;
  RngKey key;
};
inline Kernel<RandomArgs> random("random");

}  // namespace ingot::kernels
