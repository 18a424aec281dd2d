#include "ingot/nn/quantized_linear.h"

#include "ingot/autograd/node.h"
#include "ingot/kernels/gemm.h"
#include "ingot/nn/saved_packed.h"
#include "ingot/ops/linear_operands.h"

namespace ingot {
namespace {

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
      const Tensor values = weight.values(dy.dtype);
      const GradSlot dx = ctx.slot(0);
      kernels::launch(
          kernels::gemm, ctx.stream(),
          {.a = dy, .b = values.view(), .c = flattened(dx.view), .beta = dx.accumulate ? 1.0F : 0.0F});
    }
    parameters_backward(ctx.stream(), dy, {}, {}, ctx.slot(1));
  }
};

}  // namespace

Tensor quantized_linear(const Tensor& x, const quant::PackedPtr& weight, const Tensor& bias) {
  const LinearOperands o = linear_operands("quantized_linear", x, quant::values(*weight, x.dtype()), bias);
  launch_linear(o);
  return record<QuantizedLinearNode>(o.y, {&o.x, &o.bias}, weight);
}

}  // namespace ingot
