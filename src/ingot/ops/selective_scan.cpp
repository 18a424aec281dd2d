#include "ingot/ops/selective_scan.h"

#include "ingot/autograd/node.h"
#include "ingot/kernels/selective_scan.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/scan_state.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

// Inputs: x, decay, keys, queries.
struct SelectiveScanNode final : Node {
  static constexpr const char* kName = "selective_scan";
  SavedTensor x, decay, keys, queries, starts, y;
  SelectiveScanNode(const SelectiveScanInput& in, const Tensor& y_)
      : x(in.x), decay(in.decay), keys(in.keys), queries(in.queries), starts(in.starts), y(y_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &decay, &keys, &queries, &starts, &y}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& in = x.get();
    const Tensor& groups = keys.get();
    const std::int64_t batch = in.dim(0), steps = in.dim(1), heads = in.dim(2), width = groups.dim(3);
    const auto make = [&](const Shape& shape) { return Tensor::empty(shape, in.dtype(), in.device()); };
    const Tensor dkeys = make({batch, steps, heads, width}), dqueries = make({batch, steps, heads, width});
    const Tensor scratch = make({batch, heads, in.dim(3), width});
    const GradSlot dx = ctx.slot(0), ddecay = ctx.slot(1);
    kernels::launch(kernels::selective_scan_backward, ctx.stream(),
                    {.x = in.view(),
                     .decay = decay.view(),
                     .keys = groups.view(),
                     .queries = queries.view(),
                     .starts = starts.view(),
                     .y = y.view(),
                     .dy = ctx.grad().view(),
                     .scratch = scratch.view(),
                     .dx = dx.view,
                     .ddecay = ddecay.view,
                     .dkeys = dkeys.view(),
                     .dqueries = dqueries.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_ddecay = ddecay.accumulate});
    if (ctx.needs(2)) ctx.pass(2, sum_of_groups(dkeys, groups.dim(2)));
    if (ctx.needs(3)) ctx.pass(3, sum_of_groups(dqueries, groups.dim(2)));
  }
};

}  // namespace

Tensor selective_scan(const SelectiveScanInput& input, const Tensor& given_state) {
  const OpScope op_scope(SelectiveScanNode::kName, {&input.x, &input.decay, &input.keys, &input.queries},
                         false);
  const ScanOperands operands{
      SelectiveScanNode::kName, input.x, input.decay, input.keys, input.queries, input.starts};
  operands.check(given_state);
  const DType dtype = operands.wide_dtype();
  const SelectiveScanInput in{.x = scan_operand(input.x, dtype),
                              .decay = scan_operand(input.decay, dtype),
                              .keys = scan_operand(input.keys, dtype),
                              .queries = scan_operand(input.queries, dtype),
                              .starts = input.starts.defined() ? contiguous(input.starts) : Tensor()};
  const Tensor state = operands.state(given_state, {&input.x, &input.decay, &input.keys, &input.queries});
  Tensor y = Tensor::empty_like(in.x);
  if (y.numel() > 0) {
    kernels::launch(kernels::selective_scan, current_stream(y.device()),
                    {.x = in.x.view(),
                     .decay = in.decay.view(),
                     .keys = in.keys.view(),
                     .queries = in.queries.view(),
                     .starts = in.starts.view(),
                     .state = state.view(),
                     .y = y.view()});
  }
  y = record<SelectiveScanNode>(y, {&in.x, &in.decay, &in.keys, &in.queries}, in, y);
  return to(y, input.x.dtype());
}

}  // namespace ingot
