#include <algorithm>
#include <numeric>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/gemm.h"
#include "ingot/ops/linear_operands.h"
#include "ingot/ops/matmul.h"

namespace ingot {
namespace {

// Columns [begin, begin + count) of [rows, n].
View columns(View view, std::int64_t begin, std::int64_t count) {
  view.data = view.as<char>() + begin * view.stride(1) * static_cast<std::int64_t>(byte_size(view.dtype));
  view.shape[1] = count;
  return view;
}

Tensor contiguous_copy(const View& from, Stream stream) {
  Tensor to = Tensor::empty({from.dim(0), from.dim(1)}, from.dtype, from.device);
  kernels::launch(kernels::copy, stream, {.x = from, .y = to.view()});
  return to;
}

// Inputs: x, the weights, and then as many biases, which may be undefined.
struct FusedLinearNode final : Node {
  static constexpr const char* kName = "fused_linear";
  SavedTensor x;
  std::vector<SavedTensor> weights;
  FusedLinearNode(const Tensor& x_, std::span<const LinearOperands> layers) : x(x_) {
    for (const LinearOperands& of : layers) weights.emplace_back(of.weight);
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    std::vector<SavedTensor*> all{&x};
    for (SavedTensor& weight : weights) all.push_back(&weight);
    return all;
  }

  int count() const { return static_cast<int>(weights.size()); }
  int weight_input(int i) const { return 1 + i; }
  int bias_input(int i) const { return 1 + count() + i; }

  void backward(BackwardContext& ctx) override {
    const View dy = flattened(ctx.grad().view());
    input_backward(ctx, dy);
    std::vector<int> of_weights(weights.size()), of_biases(weights.size());
    std::iota(of_weights.begin(), of_weights.end(), weight_input(0));
    std::iota(of_biases.begin(), of_biases.end(), bias_input(0));
    const bool biases = std::ranges::any_of(of_biases, [&](int input) { return ctx.needs(input); });
    if (!ctx.joins(of_weights) || (biases && !ctx.joins(of_biases))) return each_backward(ctx, dy);
    const GradSlot dweight = ctx.contiguous_slot(of_weights),
                   dbias = biases ? ctx.contiguous_slot(of_biases) : GradSlot{};
    parameters_backward(ctx.stream(), dy, flattened(x.view()), dweight, dbias);
  }

 private:
  void input_backward(BackwardContext& ctx, const View& dy) const {
    if (!ctx.needs(0)) return;
    std::vector<Tensor> all;
    for (const SavedTensor& weight : weights) all.push_back(weight.get());
    if (const Tensor joined = contiguous_rows(all); joined.defined()) all = {joined};
    std::int64_t at = 0;
    for (const Tensor& weight : all) {
      const GradSlot dx = ctx.slot(0);
      kernels::launch(kernels::gemm, ctx.stream(),
                      {.a = columns(dy, at, weight.dim(0)),
                       .b = weight.view(),
                       .c = flattened(dx.view),
                       .beta = dx.accumulate ? 1.0F : 0.0F});
      at += weight.dim(0);
    }
  }

  // Gradients that lie apart, or of which only some are needed.
  void each_backward(BackwardContext& ctx, const View& dy) const {
    std::int64_t at = 0;
    for (int i = 0; i < count(); ++i) {
      const std::int64_t out = weights[static_cast<std::size_t>(i)].view().dim(0);
      const View mine = columns(dy, at, out);
      at += out;
      const GradSlot dweight = ctx.slot(weight_input(i)), dbias = ctx.slot(bias_input(i));
      const Tensor copy = dbias ? contiguous_copy(mine, ctx.stream()) : Tensor{};  // for its sums
      parameters_backward(ctx.stream(), dbias ? copy.view() : mine, flattened(x.view()), dweight, dbias);
    }
  }
};

void launch_each(std::span<const LinearOperands> layers, const View& y, Stream stream) {
  std::int64_t at = 0;
  for (const LinearOperands& of : layers) {
    const std::int64_t out = of.weight.dim(0);
    kernels::launch(kernels::gemm, stream,
                    {.a = of.flat_x(),
                     .b = transposed(of.weight.view()),
                     .c = columns(y, at, out),
                     .bias = of.bias.view()});
    at += out;
  }
}

}  // namespace

Tensor fused_linear(const Tensor& x, std::span<const LinearWeights> layers) {
  const Scope scope(ScopeKind::op, "linear");
  std::vector<LinearOperands> operands;
  std::vector<Tensor> weights, biases;
  std::int64_t out = 0;
  for (const LinearWeights& of : layers) {
    const Tensor& input = operands.empty() ? x : operands.front().x;  // made contiguous once
    const LinearOperands& o = operands.emplace_back(linear_inputs("fused_linear", input, of.weight, of.bias));
    INGOT_CHECK(o.bias.defined() == operands.front().bias.defined(),
                Error("fused_linear: all layers have a bias, or none has"));
    weights.push_back(o.weight);
    biases.push_back(o.bias);
    out += o.weight.dim(0);
  }
  const Tensor& input = operands.front().x;
  Tensor y = Tensor::empty(input.shape().with(-1, out), input.dtype(), input.device());
  const Tensor weight = contiguous_rows(weights), bias = contiguous_rows(biases);
  if (weight.defined() && bias.defined() == biases.front().defined()) {
    launch_linear({.x = input, .weight = weight, .bias = bias, .y = y});
  } else {
    launch_each(operands, flattened(y.view()), current_stream(y.device()));
  }
  std::vector<const Tensor*> inputs{&input};
  for (const LinearOperands& of : operands) inputs.push_back(&of.weight);
  for (const LinearOperands& of : operands) inputs.push_back(&of.bias);
  record_all<FusedLinearNode>(std::span(&y, 1), inputs, input, operands);
  return y;
}

}  // namespace ingot
