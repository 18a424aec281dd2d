#include "ingot/nn/quantized_linear.h"

#include "ingot/autograd/node.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/runs.h"
#include "ingot/nn/saved_packed.h"
#include "ingot/ops/linear_operands.h"

namespace ingot {
namespace {

// c = a·weightᵀ + bias, or a·weight: by one kernel where the device has it for these sizes, else with all
// values in memory.
void multiply(Stream stream, const quant::PackedMatrix& weight, const kernels::DequantizedGemmArgs& args) {
  if (!weight.order.defined() && kernels::runs(kernels::dequantized_gemm, stream.device.type, args))
    return kernels::launch(kernels::dequantized_gemm, stream, args);
  const Tensor values = quant::values(weight, args.a.dtype);
  kernels::launch(kernels::gemm, stream,
                  {.a = args.a,
                   .b = args.transposed ? transposed(values.view()) : values.view(),
                   .c = args.c,
                   .bias = args.bias,
                   .beta = args.beta});
}

struct QuantizedLinearNode final : Node {
  static constexpr const char* kName = "quantized_linear";
  SavedPacked weight;
  explicit QuantizedLinearNode(const quant::PackedPtr& weight_) : weight(weight_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return weight.tensors(); }

  // Inputs: x, bias.
  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    if (ctx.needs(0)) {
      const quant::PackedMatrix matrix = weight.matrix();
      const GradSlot dx = ctx.slot(0);
      multiply(ctx.stream(), matrix,
               {.format = matrix.format,
                .a = dy,
                .weight = matrix.data.view(),
                .c = flattened(dx.view),
                .transposed = false,
                .beta = dx.accumulate ? 1.0F : 0.0F});
    }
    parameters_backward(ctx.stream(), dy, {}, {}, ctx.slot(1));
  }
};

}  // namespace

Tensor quantized_linear(const Tensor& x, const quant::PackedPtr& weight, const Tensor& bias) {
  const LinearOperands o = linear_operands("quantized_linear", x, Shape({weight->rows, weight->cols}), bias);
  multiply(current_stream(o.y.device()), *weight,
           {.format = weight->format,
            .a = o.flat_x(),
            .weight = weight->data.view(),
            .c = o.flat_y(),
            .bias = o.bias.view()});
  return record<QuantizedLinearNode>(o.y, {&o.x, &o.bias}, weight);
}

}  // namespace ingot
