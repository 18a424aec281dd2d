#include "ingot/ops/selective_scan.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/selective_scan.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/reduce.h"
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
    const auto of_groups = [&](const Tensor& of_heads) {
      const NoGrad no_grad;
      const std::int64_t count = groups.dim(2);
      if (count == heads) return of_heads;
      return sum(reshape(of_heads, {batch, steps, count, heads / count, width}), {3});
    };
    if (ctx.needs(2)) ctx.pass(2, of_groups(dkeys));
    if (ctx.needs(3)) ctx.pass(3, of_groups(dqueries));
  }
};

void check_scan(const SelectiveScanInput& in, const Tensor& state) {
  INGOT_CHECK(in.x.rank() == 4, DimensionMismatch("selective_scan: x is [batch, steps, heads, size], got " +
                                                  to_string(in.x.shape())));
  INGOT_CHECK(in.keys.rank() == 4,
              DimensionMismatch("selective_scan: keys are [batch, steps, groups, width], "
                                "got " +
                                to_string(in.keys.shape())));
  const std::int64_t batch = in.x.dim(0), steps = in.x.dim(1), heads = in.x.dim(2), groups = in.keys.dim(2),
                     width = in.keys.dim(3);
  INGOT_CHECK(groups > 0 && heads % groups == 0,
              DimensionMismatch("selective_scan: " + std::to_string(groups) +
                                " groups of keys do not divide " + std::to_string(heads) + " heads"));
  const auto check = [](const char* what, const Tensor& x, const Shape& expected, const char* advice) {
    INGOT_CHECK(!x.defined() || x.shape() == expected,
                ShapeMismatch(what, expected.to_vector(), x.shape().to_vector(), advice));
  };
  check("selective_scan (decay)", in.decay, {batch, steps, heads}, "one for each step and head of x");
  check("selective_scan (keys)", in.keys, {batch, steps, groups, width}, "as many steps as x");
  check("selective_scan (queries)", in.queries, {batch, steps, groups, width}, "as keys");
  check("selective_scan (starts)", in.starts, {batch, steps}, "a step of each step's document");
  check("selective_scan (state)", state, {batch, heads, in.x.dim(3), width}, "a matrix for each head");
  INGOT_CHECK(
      !in.starts.defined() || in.starts.dtype() == DType::i32,
      DimensionMismatch("selective_scan: starts are i32, got " + std::string(name(in.starts.dtype()))));
}

}  // namespace

Tensor selective_scan(const SelectiveScanInput& input, const Tensor& given_state) {
  const OpScope op_scope(SelectiveScanNode::kName, {&input.x, &input.decay, &input.keys, &input.queries},
                         false);
  check_scan(input, given_state);
  const DType dtype = input.x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const auto wide = [dtype](const Tensor& x) { return contiguous(to(x, dtype)); };
  const SelectiveScanInput in{.x = wide(input.x),
                              .decay = wide(input.decay),
                              .keys = wide(input.keys),
                              .queries = wide(input.queries),
                              .starts = input.starts.defined() ? contiguous(input.starts) : Tensor()};
  bool recorded = false;
  for (const Tensor* x : {&in.x, &in.decay, &in.keys, &in.queries})
    recorded = recorded || (grad_enabled() && x->requires_grad());
  INGOT_CHECK(
      !given_state.defined() || (!recorded && given_state.is_contiguous() && given_state.dtype() == dtype),
      Error("selective_scan: a state is contiguous, of the dtype that is computed in, and has no "
            "gradient; put the call in a NoGrad scope"));
  const Tensor state =
      given_state.defined()
          ? given_state
          : Tensor::zeros({in.x.dim(0), in.x.dim(2), in.x.dim(3), in.keys.dim(3)}, dtype, in.x.device());
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
