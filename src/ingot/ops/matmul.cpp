#include "ingot/ops/matmul.h"

#include <algorithm>
#include <array>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/kernel_traits.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/linear_operands.h"

namespace ingot {
namespace {

// The view with an axis of size 1 put in before `axis`.
View unsqueezed(View view, int axis) {
  for (int i = view.rank; i > axis; --i) {
    view.shape[static_cast<std::size_t>(i)] = view.shape[static_cast<std::size_t>(i - 1)];
    view.strides[static_cast<std::size_t>(i)] = view.strides[static_cast<std::size_t>(i - 1)];
  }
  view.shape[static_cast<std::size_t>(axis)] = 1;
  view.strides[static_cast<std::size_t>(axis)] = 0;
  ++view.rank;
  return view;
}

// The matrices of `view` repeated over `batch`: leading axes put in, and stride 0 where it has size 1.
View broadcast_batch(View view, const Shape& batch) {
  while (view.rank < batch.rank() + 2) view = unsqueezed(view, 0);
  for (int i = 0; i < batch.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (view.shape[at] == batch[i]) continue;
    view.shape[at] = batch[i];
    view.strides[at] = 0;
  }
  return view;
}

Shape batch_of(const View& view) {
  return Shape(std::span<const std::int64_t>(view.shape.data(), static_cast<std::size_t>(view.rank - 2)));
}

// a, b and the result as batches of matrices of one rank: what the forward and both backward matmuls share.
struct Operands {
  View a, b, y;
};

Operands operands(const View& a, const View& b, const View& y) {
  Operands o{a.rank == 1 ? unsqueezed(a, 0) : a, b.rank == 1 ? unsqueezed(b, 1) : b, y};
  if (b.rank == 1) o.y = unsqueezed(o.y, o.y.rank);
  if (a.rank == 1) o.y = unsqueezed(o.y, o.y.rank - 1);
  const Shape batch = batch_of(o.y);
  o.a = broadcast_batch(o.a, batch);
  o.b = broadcast_batch(o.b, batch);
  return o;
}

struct MatmulNode final : Node {
  static constexpr const char* kName = "matmul";
  SavedTensor a, b;
  MatmulNode(const Tensor& a_, const Tensor& b_) : a(a_), b(b_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&a, &b}; }

  void backward(BackwardContext& ctx) override {
    const Operands o = operands(a.view(), b.view(), ctx.grad().view());
    // Along a broadcast axis the destination has stride 0, so the kernel sums over it.
    if (const GradSlot da = ctx.slot(0)) {
      const View c = operands(da.view, b.view(), ctx.grad().view()).a;
      kernels::launch(kernels::gemm, ctx.stream(),
                      {.a = o.y, .b = transposed(o.b), .c = c, .beta = da.accumulate ? 1.0F : 0.0F});
    }
    if (const GradSlot db = ctx.slot(1)) {
      const View c = operands(a.view(), db.view, ctx.grad().view()).b;
      kernels::launch(kernels::gemm, ctx.stream(),
                      {.a = transposed(o.a), .b = o.y, .c = c, .beta = db.accumulate ? 1.0F : 0.0F});
    }
  }
};

struct LinearNode final : Node {
  static constexpr const char* kName = "linear";
  SavedTensor x, weight;
  LinearNode(const Tensor& x_, const Tensor& weight_) : x(x_), weight(weight_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight}; }

  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    if (const GradSlot dx = ctx.slot(0)) {
      kernels::launch(
          kernels::gemm, ctx.stream(),
          {.a = dy, .b = weight.view(), .c = flattened(dx.view), .beta = dx.accumulate ? 1.0F : 0.0F});
    }
    parameters_backward(ctx, dy, flattened(x.view()));
  }
};

// The linear layer behind gelu_tanh. Input 0 is gelu's argument, which nothing else reads.
struct GeluLinearNode final : Node {
  static constexpr const char* kName = "gelu_linear";
  SavedTensor before, x, weight;  // x = gelu_tanh(before); undefined: to be made again
  GeluLinearNode(const Tensor& before_, const Tensor& x_, const Tensor& weight_)
      : before(before_), x(x_), weight(weight_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&before, &x, &weight}; }

  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    if (const GradSlot dx = ctx.slot(0)) {
      kernels::launch(
          kernels::gemm_gelu_backward, ctx.stream(),
          {.a = dy, .b = weight.view(), .before = flattened(before.view()), .c = flattened(dx.view)});
    }
    const Tensor gelu = x.defined() ? x.get() : gelu_tanh(before.get());
    parameters_backward(ctx, dy, flattened(gelu.view()));
  }
};

bool makes_gelu_again(Device device) {
  return selective_recompute() && kernels::kernel_traits(device).repeats_gelu;
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  const OpScope op_scope("matmul", {&left, &right});
  INGOT_CHECK(left.rank() >= 1 && right.rank() >= 1,
              DimensionMismatch("matmul takes operands of at least one axis, got shapes " +
                                to_string(left.shape()) + " and " + to_string(right.shape())));
  const std::int64_t k = left.dim(-1);
  if (const int summed = right.rank() == 1 ? 0 : right.rank() - 2; right.dim(summed) != k) {
    std::vector<std::int64_t> fitting = right.shape().to_vector();
    fitting[static_cast<std::size_t>(summed)] = k;
    const std::string axis = right.rank() == 1 ? "the only axis" : "the last but one";
    throw ShapeMismatch("matmul", std::move(fitting), right.shape().to_vector(),
                        "the first operand is " + to_string(left.shape()) + ", whose last axis and " + axis +
                            " of the second must have equal sizes");
  }
  const Tensor a = as_matrix(left), b = as_matrix(right);
  const Shape a_batch = a.rank() > 2 ? a.shape().drop_last(2) : Shape{};
  const Shape b_batch = b.rank() > 2 ? b.shape().drop_last(2) : Shape{};
  Shape shape = broadcast_shapes(a_batch, b_batch, "matmul (leading axes)");
  if (a.rank() > 1) shape = shape.insert(shape.rank(), a.dim(-2));
  if (b.rank() > 1) shape = shape.insert(shape.rank(), b.dim(-1));
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  const Operands o = operands(a.view(), b.view(), y.view());
  kernels::launch(kernels::gemm, current_stream(a.device()), {.a = o.a, .b = o.b, .c = o.y});
  return record<MatmulNode>(y, {&a, &b}, a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Scope scope(ScopeKind::op, "linear");
  const LinearOperands o = linear_operands("linear", x, weight, bias);
  launch_linear(o);
  return record<LinearNode>(o.y, {&o.x, &o.weight, &o.bias}, o.x, o.weight);
}

namespace {

// Whether matmuls of x with these layers leave no trace for a backward pass, now or later.
bool is_unrecorded(const Tensor& x, std::span<const LinearWeights> layers) {
  return !recorded_later() && std::ranges::none_of(layers, [&x](const LinearWeights& of) {
    return needs_grad({&x, &of.weight, &of.bias});
  });
}

// Of a pair of layers on, up to what one launch takes.
std::vector<Tensor> linear_together(const Tensor& x, std::span<const LinearWeights> layers) {
  const Scope scope(ScopeKind::op, "linear");
  kernels::GemmEachArgs args{.count = static_cast<int>(layers.size())};
  std::vector<LinearOperands> operands;
  std::vector<Tensor> results;
  operands.reserve(layers.size());
  results.reserve(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LinearOperands& o =
        operands.emplace_back(linear_operands("linear", x, layers[i].weight, layers[i].bias));
    args.matmuls[i] = {.b = transposed(o.weight.view()), .c = o.flat_y(), .bias = o.bias.view()};
    results.push_back(o.y);
  }
  args.a = operands.front().flat_x();
  kernels::launch(kernels::gemm_each, current_stream(x.device()), args);
  return results;
}

}  // namespace

std::vector<Tensor> linear(const Tensor& x, std::span<const LinearWeights> layers) {
  if (layers.size() > 1 && layers.size() <= kernels::GemmEachArgs::kMost && is_unrecorded(x, layers))
    return linear_together(x, layers);
  std::vector<Tensor> results;
  for (const LinearWeights& of : layers) results.push_back(linear(x, of.weight, of.bias));
  return results;
}

Tensor swiglu(const Tensor& x, const LinearWeights& gate, const LinearWeights& up) {
  const std::array<LinearWeights, 2> layers{gate, up};
  if (!is_unrecorded(x, layers)) {
    const std::vector<Tensor> projected = linear(x, layers);
    return silu_mul(projected[0], projected[1]);
  }
  const Scope scope(ScopeKind::op, "swiglu");
  const LinearOperands o = linear_operands("swiglu (gate)", x, gate.weight, gate.bias);
  const LinearOperands second = linear_operands("swiglu (up)", x, up.weight, up.bias);
  INGOT_CHECK(o.y.shape() == second.y.shape(),
              ShapeMismatch("swiglu (up)", o.y.shape().to_vector(), second.y.shape().to_vector(),
                            "gate and up must have as many outputs as each other"));
  kernels::launch(kernels::gemm_silu_mul, current_stream(o.y.device()),
                  {.a = o.flat_x(),
                   .gate = transposed(o.weight.view()),
                   .up = transposed(second.weight.view()),
                   .c = o.flat_y(),
                   .scratch = second.flat_y(),
                   .gate_bias = o.bias.view(),
                   .up_bias = second.bias.view()});
  if (detect_anomaly_enabled()) check_anomaly("swiglu", o.y);
  return o.y;
}

Tensor gelu_mlp(const Tensor& x, const LinearWeights& up, const LinearWeights& down) {
  const Scope scope(ScopeKind::op, "gelu_mlp");
  const LinearOperands o = linear_operands("gelu_mlp (up)", x, up.weight, up.bias);
  const bool passes_back = needs_grad({&o.x, &o.weight, &o.bias});
  const Tensor before = passes_back || recorded_later() ? Tensor::empty_like(o.y) : Tensor{};
  kernels::launch(kernels::gemm_gelu, current_stream(o.y.device()),
                  {.a = o.flat_x(),
                   .b = transposed(o.weight.view()),
                   .c = o.flat_y(),
                   .bias = o.bias.view(),
                   .before = before.defined() ? flattened(before.view()) : View{}});
  const LinearOperands second = linear_operands("gelu_mlp (down)", o.y, down.weight, down.bias);
  launch_linear(second);
  const Tensor argument =
      passes_back ? record<LinearNode>(before, {&o.x, &o.weight, &o.bias}, o.x, o.weight) : Tensor{};
  const bool again = passes_back && makes_gelu_again(second.x.device());
  const Tensor gelu = again ? Tensor{} : second.x;
  return record<GeluLinearNode>(second.y, {&argument, &second.weight, &second.bias}, argument, gelu,
                                second.weight);
}

}  // namespace ingot
