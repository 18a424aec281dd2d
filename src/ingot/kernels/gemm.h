#pragma once

#include <array>
#include <cstddef>

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// c = alpha·a·b + beta·c + bias over the last two axes: a [..., m, k], b [..., k, n], c [..., m, n]; one
/// dtype, but for weights kept in half precision: b may be bf16 or f16 where all others are f32. Sums in f32
/// (f64 for f64). Any strides: a transposed operand is a view with its strides swapped.
/// Leading (batch) axes have equal sizes in all three; an operand that is broadcast along one has stride 0
/// there. Where c has stride 0 along a batch axis, the matmuls are summed over it (the gradient of a
/// broadcast operand). With beta 0, c is not read. bias: [n] or absent, added to every row.
struct GemmArgs {
  View a, b, c;
  View bias{};
  float alpha = 1.0F;
  float beta = 0.0F;
};
inline Kernel<GemmArgs> gemm("gemm");
inline double flops(const GemmArgs& args) {
  return 2 * static_cast<double>(args.c.numel()) * static_cast<double>(args.a.dim(-1));
}

/// c = a·b + bias for each of `count` matmuls of one a: what several layers make of their input. a: [m, k];
/// b [k, n], c [m, n] and bias, [n] or absent, of each, with an n of its own; strides and dtypes as for gemm.
/// On the CPU each has the bits of gemm. On a GPU the order of its sums may depend on the sizes of all
/// weights, but not on m nor on other rows, where few rows are multiplied in one launch.
struct GemmEachArgs {
  static constexpr int kMost = 4;
  struct Matmul {
    View b, c;
    View bias{};
  };
  View a;
  std::array<Matmul, kMost> matmuls{};
  int count = 0;

  GemmArgs one(int i) const {
    const Matmul& of = matmuls[static_cast<std::size_t>(i)];
    return {.a = a, .b = of.b, .c = of.c, .bias = of.bias};
  }
};
inline Kernel<GemmEachArgs> gemm_each("gemm_each");
inline double flops(const GemmEachArgs& args) {
  double sum = 0;
  for (int i = 0; i < args.count; ++i) sum += flops(args.one(i));
  return sum;
}

/// c = silu(a·gate + gate_bias) ∘ (a·up + up_bias), both matmuls rounded to c's dtype first (SwiGLU, Shazeer
/// 2020): the bits of gemm_each and silu_mul behind it. a: [m, k]; gate and up: [k, n]; biases: [n] or
/// absent; strides and dtypes as for gemm. c and scratch: [m, n], one dtype, contiguous rows; scratch is
/// scratch of devices that multiply first.
struct GemmSiluMulArgs {
  View a, gate, up, c, scratch;
  View gate_bias{}, up_bias{};

  /// The matmuls, gate's in c and up's in scratch.
  GemmEachArgs matmuls() const {
    return {.a = a,
            .matmuls = {{{.b = gate, .c = c, .bias = gate_bias}, {.b = up, .c = scratch, .bias = up_bias}}},
            .count = 2};
  }
};
inline Kernel<GemmSiluMulArgs> gemm_silu_mul("gemm_silu_mul");
inline double flops(const GemmSiluMulArgs& args) { return flops(args.matmuls()); }

/// c = gelu_tanh(a·b + bias), and `before`, where present, the argument of gelu, rounded to its dtype. a: [m,
/// k], b: [k, n], c and before: [m, n] with contiguous rows, bias: [n] or absent; strides and dtypes as for
/// gemm. On the CPU gelu is taken of the rounded argument, on a GPU of the sum itself.
struct GemmGeluArgs {
  View a, b, c;
  View bias{}, before{};
};
inline Kernel<GemmGeluArgs> gemm_gelu("gemm_gelu");
inline double flops(const GemmGeluArgs& args) {
  return flops(GemmArgs{.a = args.a, .b = args.b, .c = args.c});
}

/// c = (a·b) ∘ gelu_tanh'(before): the gradient of gelu's argument, where a·b is that of its result. a: [m,
/// k], b: [k, n], c and before: [m, n] with contiguous rows; one dtype, strides as for gemm. On the CPU the
/// matmul is rounded to c's dtype in between, on a GPU not.
struct GemmGeluBackwardArgs {
  View a, b, before, c;
};
inline Kernel<GemmGeluBackwardArgs> gemm_gelu_backward("gemm_gelu_backward");
inline double flops(const GemmGeluBackwardArgs& args) {
  return flops(GemmArgs{.a = args.a, .b = args.b, .c = args.c});
}

/// y[j] = Σ_i x[i, j], or += with `accumulate`: the gradient of a bias. x: [m, n], contiguous; y: [n], x's
/// dtype; partials: scratch of [scratch_parts(device), n] in the accumulator dtype (parts of the rows are
/// summed apart, then in order).
struct ColumnSumArgs {
  View x, y, partials;
  bool accumulate = false;
};
inline Kernel<ColumnSumArgs> column_sum("column_sum");

/// dweight = dyᵀ·x and dbias = the column sums of dy, or += where `accumulate` says so: what a linear layer
/// passes back to its parameters. dy: [m, n], contiguous; x: [m, k] with any strides; dweight: [n, k]; dbias:
/// [n], contiguous; one dtype. partials: scratch as for column_sum.
struct LinearParametersBackwardArgs {
  View dy, x, dweight, dbias, partials;
  bool accumulate_weight = false, accumulate_bias = false;
};
inline Kernel<LinearParametersBackwardArgs> linear_parameters_backward("linear_parameters_backward");
inline double flops(const LinearParametersBackwardArgs& args) {
  return 2 * static_cast<double>(args.dy.numel()) * static_cast<double>(args.x.dim(-1));
}

// One kernel after the other, for devices and operands that have no single one.
void gemm_each_by_one(const GemmEachArgs& args, Stream stream);
void gemm_silu_mul_in_three(const GemmSiluMulArgs& args, Stream stream);
void gemm_gelu_in_two(const GemmGeluArgs& args, Stream stream);
void gemm_gelu_backward_in_two(const GemmGeluBackwardArgs& args, Stream stream);
void linear_parameters_backward_in_two(const LinearParametersBackwardArgs& args, Stream stream);

}  // namespace ingot::kernels
