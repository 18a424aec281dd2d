#include "ingot/ops/pointwise.h"

#include <algorithm>
#include <limits>

#include "ingot/autograd/node.h"
#include "ingot/base/env.h"
#include "ingot/core/backend.h"

namespace ingot {
namespace {

using kernels::BinaryOp;
using kernels::PointwiseStep;
using kernels::UnaryOp;
using Kind = PointwiseStep::Kind;
using Steps = std::vector<PointwiseStep>;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::int64_t default_threshold() {
  // Environment: INGOT_FUSION=0 | element-wise formulas run operation by operation
  static const bool on = env_flag("FUSION").value_or(true);
  return on ? kFusedElements : kNever;
}

thread_local std::int64_t threshold = -1;  // -1: the default

// The numbers of the values that a step reads.
std::vector<int*> operands(PointwiseStep& s) {
  std::vector<int*> list{&s.a};
  if (s.kind != Kind::unary) list.push_back(&s.b);
  if (s.kind == Kind::binary_backward) list.push_back(&s.c);
  if (s.sum >= 0) list.push_back(&s.sum);
  return list;
}

/// The steps of a chain, and behind them those of its gradients. Values are the inputs, the gradient of the
/// result, and the results of the steps.
class GradientChain {
 public:
  GradientChain(const Steps& forward, int inputs) : inputs_(inputs), gradient_(inputs) {
    for (PointwiseStep step : forward) {
      for (int* operand : operands(step)) *operand += *operand >= inputs ? 1 : 0;
      steps_.push_back(step);
    }
    adjoints_.assign(static_cast<std::size_t>(inputs + 1) + forward.size(), -1);
    adjoints_.back() = gradient_;
    for (int i = static_cast<int>(forward.size()) - 1; i >= 0; --i) differentiate(inputs + 1 + i);
  }

  /// What computes the gradient of one input; empty where the result does not depend on it.
  Steps steps_for(int input) {
    int target = adjoints_[static_cast<std::size_t>(input)];
    if (target < 0) return {};
    if (target <= inputs_) target = append({.kind = Kind::unary, .unary = UnaryOp::scale, .a = target});
    return only(target);
  }

 private:
  int append(const PointwiseStep& step) {
    steps_.push_back(step);
    return inputs_ + static_cast<int>(steps_.size());
  }
  PointwiseStep at(int value) const { return steps_[static_cast<std::size_t>(value - inputs_ - 1)]; }

  int& adjoint(int value) { return adjoints_[static_cast<std::size_t>(value)]; }

  // What a step computes is a part of the gradient of `value`, and is added to the parts before as kernels
  // add to what is there.
  void give(int value, PointwiseStep step) {
    step.sum = adjoint(value);
    adjoint(value) = append(step);
  }
  // The gradient of the step's result is a part as it stands.
  void pass(int value, int gradient) {
    if (adjoint(value) < 0) {
      adjoint(value) = gradient;
    } else {
      give(value, {.kind = Kind::unary, .unary = UnaryOp::scale, .a = gradient});
    }
  }

  void differentiate(int value) {
    const int dy = adjoints_[static_cast<std::size_t>(value)];
    if (dy < 0) return;
    const PointwiseStep s = at(value);
    if (s.kind == Kind::unary) {
      const int saved = kernels::derivative_uses_result(s.unary) ? value : s.a;
      return give(s.a, {.kind = Kind::unary_backward,
                        .unary = s.unary,
                        .a = saved,
                        .b = dy,
                        .alpha = s.alpha,
                        .beta = s.beta});
    }
    const auto product = [&](BinaryOp op, int by) {
      return PointwiseStep{.kind = Kind::binary, .binary = op, .a = dy, .b = by};
    };
    const auto partial = [&](int a, int b) {
      return PointwiseStep{.kind = Kind::binary_backward, .binary = s.binary, .a = a, .b = b, .c = dy};
    };
    switch (s.binary) {
      case BinaryOp::add:
        pass(s.a, dy);
        return pass(s.b, dy);
      case BinaryOp::sub:
        pass(s.a, dy);
        return give(s.b, {.kind = Kind::unary, .unary = UnaryOp::scale, .a = dy, .alpha = -1});
      case BinaryOp::mul:
        give(s.a, product(BinaryOp::mul, s.b));
        return give(s.b, product(BinaryOp::mul, s.a));
      case BinaryOp::div:
        give(s.a, product(BinaryOp::div, s.b));
        return give(s.b, partial(s.a, s.b));
      case BinaryOp::maximum:
      case BinaryOp::minimum:
        give(s.a, partial(s.a, s.b));
        return give(s.b, partial(s.b, s.a));
    }
  }

  // The steps that `target` needs, renumbered; it is the last of them.
  Steps only(int target) const {
    std::vector<int> number(static_cast<std::size_t>(inputs_ + 1) + steps_.size(), -1);
    std::vector<bool> needed(number.size());
    needed[static_cast<std::size_t>(target)] = true;
    for (int value = target; value > inputs_; --value) {
      if (!needed[static_cast<std::size_t>(value)]) continue;
      PointwiseStep s = at(value);
      for (const int* used : operands(s)) needed[static_cast<std::size_t>(*used)] = true;
    }
    Steps result;
    for (int value = 0; value <= target; ++value) {
      const auto at_value = static_cast<std::size_t>(value);
      number[at_value] = value;
      if (value <= inputs_) continue;
      if (!needed[at_value]) continue;
      PointwiseStep s = at(value);
      for (int* used : operands(s)) *used = number[static_cast<std::size_t>(*used)];
      number[at_value] = inputs_ + 1 + static_cast<int>(result.size());
      result.push_back(s);
    }
    return result;
  }

  int inputs_, gradient_;
  Steps steps_;
  std::vector<int> adjoints_;  // of each value: the number of its gradient, or -1
};

struct PointwiseNode final : Node {
  static constexpr const char* kName = "pointwise";
  std::vector<SavedTensor> inputs;
  Steps steps;
  PointwiseNode(std::span<const Tensor* const> inputs_, const Steps& steps_) : steps(steps_) {
    for (const Tensor* input : inputs_) inputs.emplace_back(*input);
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    std::vector<SavedTensor*> list;
    for (SavedTensor& input : inputs) list.push_back(&input);
    return list;
  }

  void backward(BackwardContext& ctx) override {
    std::vector<View> values;
    for (const SavedTensor& input : inputs) values.push_back(input.view());
    values.push_back(ctx.grad().view());
    GradientChain chain(steps, static_cast<int>(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Steps gradient = chain.steps_for(static_cast<int>(i));
      if (gradient.empty()) continue;
      const GradSlot dx = ctx.slot(static_cast<int>(i));
      if (!dx) continue;
      kernels::launch(kernels::pointwise, ctx.stream(),
                      {.inputs = values, .y = dx.view, .steps = gradient, .accumulate = dx.accumulate});
    }
  }
};

}  // namespace

Symbol Symbol::unary(kernels::UnaryOp op, double alpha, double beta) const {
  return {trace, trace->add({.kind = Kind::unary, .unary = op, .a = number, .alpha = alpha, .beta = beta})};
}

Symbol Symbol::binary(kernels::BinaryOp op, Symbol b) const {
  return {trace, trace->add({.kind = Kind::binary, .binary = op, .a = number, .b = b.number})};
}

FusionScope::FusionScope(bool on, std::int64_t elements) : previous_(threshold) {
  threshold = on ? elements : kNever;
}
FusionScope::~FusionScope() { threshold = previous_; }

bool fuses(std::span<const Tensor* const> inputs) {
  const Tensor& first = *inputs.front();
  if (!first.defined()) return false;
  if (first.numel() < (threshold < 0 ? default_threshold() : threshold)) return false;
  if (first.dtype() != DType::f32 && !is_half_precision(first.dtype())) return false;
  // One position is for the gradient of the result.
  return inputs.size() < kernels::kMostPointwiseInputs &&
         backend(first.device()).kernel_executor() != nullptr &&
         std::ranges::all_of(inputs, [&](const Tensor* x) {
           return x->defined() && x->device() == first.device() && x->dtype() == first.dtype() &&
                  x->shape() == first.shape() && x->is_contiguous() &&
                  reinterpret_cast<std::uintptr_t>(x->view().data) % 16 == 0;
         });
}

Tensor fused_pointwise(std::span<const Tensor* const> inputs, std::vector<PointwiseStep> steps) {
  const Scope scope(ScopeKind::op, "pointwise");
  std::vector<View> views;
  for (const Tensor* input : inputs) views.push_back(input->view());
  Tensor y = Tensor::empty_like(*inputs.front());
  kernels::launch(kernels::pointwise, current_stream(y.device()),
                  {.inputs = views, .y = y.view(), .steps = steps});
  record_all<PointwiseNode>(std::span(&y, 1), inputs, inputs, steps);
  return recomputable(y, inputs, [steps](std::span<const Tensor> in) {
    std::vector<const Tensor*> again;
    for (const Tensor& input : in) again.push_back(&input);
    return fused_pointwise(again, steps);
  });
}

}  // namespace ingot
