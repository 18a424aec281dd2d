#include "ingot/ops/linear_operands.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {

View flattened(View view) {
  if (view.rank == 2) return view;
  const std::int64_t n = view.dim(-1);
  const std::int64_t rows = view.rows();
  view.rank = 2;
  view.shape = {rows, n};
  view.strides = {n, 1};
  return view;
}

namespace {

LinearOperands inputs_of(const char* op, const Tensor& input, const Shape& weight, const Tensor& bias) {
  INGOT_CHECK(weight.rank() == 2 && input.rank() >= 1 && input.dim(-1) == weight[1],
              ShapeMismatch(std::string(op) + " (weight)", {-1, input.rank() >= 1 ? input.dim(-1) : 1},
                            weight.to_vector(), "the weight is [out, in] and x is [..., in]"));
  if (bias.defined()) {
    check_defined(op, {&input, &bias});
    INGOT_CHECK(bias.shape() == Shape({weight[0]}),
                ShapeMismatch(std::string(op) + " (bias)", {weight[0]}, bias.shape().to_vector()));
  }
  LinearOperands o;
  o.x = input.rank() == 2 ? as_matrix(input) : contiguous(input);
  o.bias = bias.defined() ? contiguous(bias) : bias;
  return o;
}

Tensor empty_result(const LinearOperands& o, std::int64_t out) {
  return Tensor::empty(o.x.shape().with(-1, out), o.x.dtype(), o.x.device());
}

}  // namespace

LinearOperands linear_inputs(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const bool half_weight = input.defined() && weight.defined() && input.dtype() == DType::f32 &&
                           is_half_precision(weight.dtype()) && !grad_enabled();
  check_defined(op, {&input, &weight}, !half_weight);
  LinearOperands o = inputs_of(op, input, weight.shape(), bias);
  o.weight = as_matrix(weight);
  return o;
}

LinearOperands linear_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  LinearOperands o = linear_inputs(op, x, weight, bias);
  o.y = empty_result(o, weight.dim(0));
  return o;
}

LinearOperands linear_operands(const char* op, const Tensor& x, const Shape& weight, const Tensor& bias) {
  check_defined(op, {&x});
  LinearOperands o = inputs_of(op, x, weight, bias);
  o.y = empty_result(o, weight[0]);
  return o;
}

void launch_linear(const LinearOperands& o) {
  kernels::launch(
      kernels::gemm, current_stream(o.y.device()),
      {.a = o.flat_x(), .b = transposed(o.weight.view()), .c = o.flat_y(), .bias = o.bias.view()});
}

void parameters_backward(Stream stream, const View& dy, const View& x, const GradSlot& dweight,
                         const GradSlot& dbias) {
  if (!dbias) {
    if (!dweight) return;
    return kernels::launch(
        kernels::gemm, stream,
        {.a = transposed(dy), .b = x, .c = dweight.view, .beta = dweight.accumulate ? 1.0F : 0.0F});
  }
  const Tensor partials =
      Tensor::empty({kernels::scratch_parts(dy.device), dy.dim(1)}, accumulator_dtype(dy.dtype), dy.device);
  if (!dweight) {
    return kernels::launch(
        kernels::column_sum, stream,
        {.x = dy, .y = dbias.view, .partials = partials.view(), .accumulate = dbias.accumulate});
  }
  kernels::launch(kernels::linear_parameters_backward, stream,
                  {.dy = dy,
                   .x = x,
                   .dweight = dweight.view,
                   .dbias = dbias.view,
                   .partials = partials.view(),
                   .accumulate_weight = dweight.accumulate,
                   .accumulate_bias = dbias.accumulate});
}

void parameters_backward(BackwardContext& ctx, const View& dy, const View& x) {
  const GradSlot dweight = ctx.slot(1), dbias = ctx.slot(2);
  parameters_backward(ctx.stream(), dy, x, dweight, dbias);
}

}  // namespace ingot
