#include "ingot/kernels/gemm.h"

#include "ingot/kernels/elementwise.h"

namespace ingot::kernels {

void gemm_each_by_one(const GemmEachArgs& args, Stream stream) {
  for (int i = 0; i < args.count; ++i) launch(gemm, stream, args.one(i));
}

void gemm_silu_mul_in_three(const GemmSiluMulArgs& args, Stream stream) {
  launch(gemm_each, stream, args.matmuls());
  launch(silu_mul, stream, {.gate = args.c, .up = args.scratch, .y = args.c});
}

void gemm_gelu_in_two(const GemmGeluArgs& args, Stream stream) {
  const View& sum = args.before ? args.before : args.c;
  launch(gemm, stream, {.a = args.a, .b = args.b, .c = sum, .bias = args.bias});
  launch(unary, stream, {.x = sum, .y = args.c, .op = UnaryOp::gelu_tanh});
}

void gemm_gelu_backward_in_two(const GemmGeluBackwardArgs& args, Stream stream) {
  launch(gemm, stream, {.a = args.a, .b = args.b, .c = args.c});
  launch(unary_backward, stream,
         {.saved = args.before, .dy = args.c, .dx = args.c, .op = UnaryOp::gelu_tanh});
}

void linear_parameters_backward_in_two(const LinearParametersBackwardArgs& args, Stream stream) {
  launch(gemm, stream,
         {.a = transposed(args.dy),
          .b = args.x,
          .c = args.dweight,
          .beta = args.accumulate_weight ? 1.0F : 0.0F});
  launch(column_sum, stream,
         {.x = args.dy, .y = args.dbias, .partials = args.partials, .accumulate = args.accumulate_bias});
}

}  // namespace ingot::kernels
