#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/linear_operands.h"
#include "ingot/ops/matmul.h"

namespace ingot {
namespace {

// The two halves of the columns of [..., 2n].
struct Halves {
  View gate, up;  // [rows, n]
  explicit Halves(const View& both) : gate(flattened(both)) {
    const std::int64_t n = gate.shape[1] /= 2;
    up = gate;
    up.data = gate.as<char>() + n * static_cast<std::int64_t>(byte_size(gate.dtype));
  }
};

Tensor product_of(const Tensor& gate_up) {
  Tensor product =
      Tensor::empty(gate_up.shape().with(-1, gate_up.dim(-1) / 2), gate_up.dtype(), gate_up.device());
  const Halves in(gate_up.view());
  kernels::launch(kernels::silu_mul, current_stream(gate_up.device()),
                  {.gate = in.gate, .up = in.up, .y = flattened(product.view())});
  return product;
}

// The linear layer behind silu(gate)·up. Input 0 is fused gate and up.
struct SwigluLinearNode final : Node {
  static constexpr const char* kName = "swiglu_linear";
  SavedTensor gate_up, x, weight;  // x = silu(gate)·up; undefined: to be made again, or of no use
  SwigluLinearNode(const Tensor& gate_up_, const Tensor& x_, const Tensor& weight_)
      : gate_up(gate_up_), x(x_), weight(weight_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&gate_up, &x, &weight}; }

  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    const Tensor dproduct = product_gradient(ctx, dy);
    if (x.defined()) {
      parameters_backward(ctx, dy, flattened(x.view()));
      if (!ctx.retains_graph()) x.release();  // its memory may serve the gradients of gate and up
      return pass_back(ctx, dproduct, {});
    }
    const View product = ctx.needs(1) ? dproduct.view() : View{};  // over its gradient
    pass_back(ctx, dproduct, product);
    parameters_backward(ctx, dy, product);
  }

 private:
  // Undefined where nobody needs it.
  Tensor product_gradient(BackwardContext& ctx, const View& dy) const {
    if (!ctx.needs(0)) return {};
    const Halves in(gate_up.view());
    Tensor dproduct = Tensor::empty({in.gate.dim(0), in.gate.dim(1)}, dy.dtype, dy.device);
    kernels::launch(kernels::gemm, ctx.stream(), {.a = dy, .b = weight.view(), .c = dproduct.view()});
    return dproduct;
  }

  // The gradient of input 0, and silu(gate)·up where there is a buffer for it.
  void pass_back(BackwardContext& ctx, const Tensor& dproduct, const View& product) const {
    if (!dproduct.defined()) return;
    const Halves in(gate_up.view());
    const GradSlot slot = ctx.slot(0);
    const Halves out(slot.view);
    kernels::launch(kernels::silu_mul_backward, ctx.stream(),
                    {.gate = in.gate,
                     .up = in.up,
                     .dy = dproduct.view(),
                     .dgate = out.gate,
                     .dup = out.up,
                     .accumulate_dgate = slot.accumulate,
                     .accumulate_dup = slot.accumulate,
                     .product = product});
  }
};

}  // namespace

Tensor swiglu_linear(const Tensor& gate_up, const LinearWeights& down) {
  const OpScope op_scope("swiglu_linear", {&gate_up, &down.weight}, false);
  INGOT_CHECK(down.weight.rank() == 2 && gate_up.rank() >= 1 && gate_up.dim(-1) == 2 * down.weight.dim(1),
              ShapeMismatch("swiglu_linear (weight)", {-1, gate_up.rank() >= 1 ? gate_up.dim(-1) / 2 : 1},
                            down.weight.shape().to_vector(),
                            "the weight is [out, in] and what it multiplies [..., 2·in], gate before up"));
  const Tensor both = contiguous(gate_up);
  const LinearOperands o = linear_operands("swiglu_linear", product_of(both), down.weight, down.bias);
  launch_linear(o);
  // Who does not pass back to gate and up keeps the half of them that the weight's gradient takes.
  const bool passes_back = needs_grad({&both}), keeps = needs_grad({&o.weight});
  return record<SwigluLinearNode>(o.y, {&both, &o.weight, &o.bias}, passes_back ? both : Tensor{},
                                  keeps && !(passes_back && selective_recompute()) ? o.x : Tensor{},
                                  passes_back ? o.weight : Tensor{});
}

}  // namespace ingot
