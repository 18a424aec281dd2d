#include "ingot/ops/delta_rule.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/node.h"
#include "ingot/kernels/delta_rule.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/scan_state.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Steps whose states a backward pass holds at once: as many as there are parts of so many.
std::int64_t steps_of_a_part(std::int64_t steps) {
  return std::max<std::int64_t>(std::llround(std::sqrt(static_cast<double>(steps))), 1);
}

// Inputs: x, decay, beta, keys, queries.
struct DeltaRuleNode final : Node {
  static constexpr const char* kName = "delta_rule";
  SavedTensor x, decay, beta, keys, queries, starts;
  explicit DeltaRuleNode(const DeltaRuleInput& in)
      : x(in.x), decay(in.decay), beta(in.beta), keys(in.keys), queries(in.queries), starts(in.starts) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &decay, &beta, &keys, &queries, &starts}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& in = x.get();
    const Tensor& groups = keys.get();
    const std::int64_t batch = in.dim(0), steps = in.dim(1), heads = in.dim(2), size = in.dim(3),
                       width = groups.dim(3);
    const auto make = [&](const Shape& shape) { return Tensor::empty(shape, in.dtype(), in.device()); };
    const Tensor dkeys = make({batch, steps, heads, width}), dqueries = make({batch, steps, heads, width});
    const std::int64_t together = steps_of_a_part(steps), parts = (steps + together - 1) / together;
    const Tensor states = make({batch, heads, parts, size, width}),
                 history = make({batch, heads, size, together, width}),
                 gradient = make({batch, heads, size, width});
    const GradSlot dx = ctx.slot(0), ddecay = ctx.slot(1), dbeta = ctx.slot(2);
    kernels::launch(kernels::delta_rule_backward, ctx.stream(),
                    {.x = in.view(),
                     .decay = decay.view(),
                     .beta = beta.view(),
                     .keys = groups.view(),
                     .queries = queries.view(),
                     .starts = starts.view(),
                     .dy = ctx.grad().view(),
                     .states = states.view(),
                     .history = history.view(),
                     .gradient = gradient.view(),
                     .dx = dx.view,
                     .ddecay = ddecay.view,
                     .dbeta = dbeta.view,
                     .dkeys = dkeys.view(),
                     .dqueries = dqueries.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_ddecay = ddecay.accumulate,
                     .accumulate_dbeta = dbeta.accumulate});
    if (ctx.needs(3)) ctx.pass(3, sum_of_groups(dkeys, groups.dim(2)));
    if (ctx.needs(4)) ctx.pass(4, sum_of_groups(dqueries, groups.dim(2)));
  }
};

}  // namespace

Tensor delta_rule(const DeltaRuleInput& input, const Tensor& given_state) {
  const OpScope op_scope(DeltaRuleNode::kName,
                         {&input.x, &input.decay, &input.beta, &input.keys, &input.queries}, false);
  const ScanOperands operands{DeltaRuleNode::kName, input.x,       input.decay,
                              input.keys,           input.queries, input.starts};
  operands.check(given_state);
  check_scan_shape(DeltaRuleNode::kName, "beta", input.beta, {input.x.dim(0), input.x.dim(1), input.x.dim(2)},
                   "one for each step and head of x");
  const DType dtype = operands.wide_dtype();
  const DeltaRuleInput in{.x = scan_operand(input.x, dtype),
                          .decay = scan_operand(input.decay, dtype),
                          .beta = scan_operand(input.beta, dtype),
                          .keys = scan_operand(input.keys, dtype),
                          .queries = scan_operand(input.queries, dtype),
                          .starts = input.starts.defined() ? contiguous(input.starts) : Tensor()};
  const Tensor state =
      operands.state(given_state, {&input.x, &input.decay, &input.beta, &input.keys, &input.queries});
  Tensor y = Tensor::empty_like(in.x);
  if (y.numel() > 0) {
    kernels::launch(kernels::delta_rule, current_stream(y.device()),
                    {.x = in.x.view(),
                     .decay = in.decay.view(),
                     .beta = in.beta.view(),
                     .keys = in.keys.view(),
                     .queries = in.queries.view(),
                     .starts = in.starts.view(),
                     .state = state.view(),
                     .y = y.view()});
  }
  y = record<DeltaRuleNode>(y, {&in.x, &in.decay, &in.beta, &in.keys, &in.queries}, in);
  return to(y, input.x.dtype());
}

}  // namespace ingot
