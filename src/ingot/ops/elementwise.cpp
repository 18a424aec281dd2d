#include "ingot/ops/elementwise.h"

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

using kernels::UnaryOp;

constexpr std::string_view name_of(UnaryOp op) {
  constexpr std::string_view kNames[] = {
      "scale", "abs",     "exp",  "log",        "sqrt", "rsqrt",    "square",    "reciprocal", "sin",
      "cos",   "sigmoid", "tanh", "relu",       "silu", "gelu_erf", "gelu_tanh", "mish",       "softplus",
      "pow",   "clamp",   "erf",  "leaky_relu", "elu",  "floor",    "ceil",      "round",      "sign"};
  static_assert(std::size(kNames) == kernels::kUnaryOps);
  return kNames[static_cast<std::size_t>(op)];
}

struct UnaryNode final : Node {
  SavedTensor x;  // the argument or the result, see derivative_uses_result; none for scale
  UnaryOp op;
  double alpha, beta;
  UnaryNode(const Tensor& saved_, UnaryOp op_, double alpha_, double beta_)
      : x(saved_), op(op_), alpha(alpha_), beta(beta_) {}
  std::string_view name() const override { return name_of(op); }
  std::vector<SavedTensor*> saved() override { return {&x}; }

  void backward(BackwardContext& ctx) override {
    if (op == UnaryOp::scale && alpha == 1) return ctx.pass(0, ctx.grad());
    const GradSlot dx = ctx.slot(0);
    if (!dx) return;
    kernels::launch(kernels::unary_backward, ctx.stream(),
                    {.saved = x.view(),
                     .dy = ctx.grad().view(),
                     .dx = dx.view,
                     .op = op,
                     .alpha = alpha,
                     .beta = beta,
                     .accumulate = dx.accumulate});
  }
};

Tensor unary(UnaryOp op, const Tensor& x, double alpha = 1, double beta = 0) {
  const OpScope op_scope(name_of(op).data(), {&x});
  Tensor y = Tensor::empty_like(x);
  kernels::launch(kernels::unary, current_stream(x.device()),
                  {.x = x.view(), .y = y.view(), .op = op, .alpha = alpha, .beta = beta});
  const bool none = op == UnaryOp::scale, keeps_result = !none && kernels::derivative_uses_result(op);
  y = record<UnaryNode>(y, {&x}, none ? Tensor{} : keeps_result ? y : x, op, alpha, beta);
  if (keeps_result || (none && !is_recomputed(x))) return y;
  return recomputable(y, {&x}, [=](std::span<const Tensor> in) { return unary(op, in[0], alpha, beta); });
}

struct SiluMulNode final : Node {
  static constexpr const char* kName = "silu_mul";
  SavedTensor gate, up;
  SiluMulNode(const Tensor& gate_, const Tensor& up_) : gate(gate_), up(up_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&gate, &up}; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dgate = ctx.slot(0), dup = ctx.slot(1);
    if (dgate.view.data != dup.view.data) return launch(ctx, dgate, dup);
    launch(ctx, dgate, {});  // gate and up are one tensor: the second gradient adds onto the first
    launch(ctx, {}, dup);
  }

  void launch(BackwardContext& ctx, const GradSlot& dgate, const GradSlot& dup) const {
    kernels::launch(kernels::silu_mul_backward, ctx.stream(),
                    {.gate = gate.view(),
                     .up = up.view(),
                     .dy = ctx.grad().view(),
                     .dgate = dgate.view,
                     .dup = dup.view,
                     .accumulate_dgate = dgate.accumulate,
                     .accumulate_dup = dup.accumulate});
  }
};

}  // namespace

Tensor scale(const Tensor& x, double alpha, double beta) { return unary(UnaryOp::scale, x, alpha, beta); }
Tensor neg(const Tensor& x) { return unary(UnaryOp::scale, x, -1); }
Tensor abs(const Tensor& x) { return unary(UnaryOp::abs, x); }
Tensor exp(const Tensor& x) { return unary(UnaryOp::exp, x); }
Tensor log(const Tensor& x) { return unary(UnaryOp::log, x); }
Tensor sqrt(const Tensor& x) { return unary(UnaryOp::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(UnaryOp::rsqrt, x); }
Tensor square(const Tensor& x) { return unary(UnaryOp::square, x); }
Tensor reciprocal(const Tensor& x) { return unary(UnaryOp::reciprocal, x); }
Tensor sin(const Tensor& x) { return unary(UnaryOp::sin, x); }
Tensor cos(const Tensor& x) { return unary(UnaryOp::cos, x); }
Tensor sigmoid(const Tensor& x) { return unary(UnaryOp::sigmoid, x); }
Tensor tanh(const Tensor& x) { return unary(UnaryOp::tanh, x); }
Tensor relu(const Tensor& x) { return unary(UnaryOp::relu, x); }
Tensor silu(const Tensor& x) { return unary(UnaryOp::silu, x); }
Tensor gelu_erf(const Tensor& x) { return unary(UnaryOp::gelu_erf, x); }
Tensor gelu_tanh(const Tensor& x) { return unary(UnaryOp::gelu_tanh, x); }
Tensor mish(const Tensor& x) { return unary(UnaryOp::mish, x); }
Tensor softplus(const Tensor& x) { return unary(UnaryOp::softplus, x); }
Tensor erf(const Tensor& x) { return unary(UnaryOp::erf, x); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary(UnaryOp::leaky_relu, x, slope); }
Tensor elu(const Tensor& x, double alpha) { return unary(UnaryOp::elu, x, alpha); }
Tensor floor(const Tensor& x) { return unary(UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return unary(UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return unary(UnaryOp::round, x); }
Tensor sign(const Tensor& x) { return unary(UnaryOp::sign, x); }
Tensor pow(const Tensor& x, double exponent) {
  if (exponent == 2) return square(x);
  return unary(UnaryOp::pow, x, exponent);
}

Tensor clamp(const Tensor& x, double low, double high) {
  INGOT_CHECK(low <= high, Error("clamp: the lower limit " + std::to_string(low) + " is above the upper, " +
                                 std::to_string(high)));
  return unary(UnaryOp::clamp, x, low, high);
}

Tensor silu_mul(const Tensor& gate, const Tensor& up) {
  const OpScope op_scope("silu_mul", {&gate, &up});
  INGOT_CHECK(gate.shape() == up.shape(),
              ShapeMismatch("silu_mul (up)", gate.shape().to_vector(), up.shape().to_vector()));
  Tensor y = Tensor::empty_like(gate);
  kernels::launch(kernels::silu_mul, current_stream(gate.device()),
                  {.gate = gate.view(), .up = up.view(), .y = y.view()});
  return recomputable(record<SiluMulNode>(y, {&gate, &up}, gate, up), {&gate, &up},
                      [](std::span<const Tensor> in) { return silu_mul(in[0], in[1]); });
}

}  // namespace ingot
