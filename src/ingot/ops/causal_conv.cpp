#include "ingot/ops/causal_conv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/causal_conv.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

constexpr std::int64_t kRowsOfPart = 128;  // that a device sums apart at least

struct CausalConvNode final : Node {
  static constexpr const char* kName = "causal_conv";
  SavedTensor x, weight, starts;
  CausalConvNode(const Tensor& x_, const Tensor& weight_, const Tensor& starts_)
      : x(x_), weight(weight_), starts(starts_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight, &starts}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    const std::int64_t taps = weight.view().dim(1), rows = dy.dim(0) * dy.dim(1);
    Tensor scratch;
    if (ctx.needs(1) || ctx.needs(2)) {
      const std::int64_t parts =
          std::min<std::int64_t>(kernels::scratch_parts(dy.device()), (rows + kRowsOfPart - 1) / kRowsOfPart);
      scratch =
          Tensor::empty({std::max<std::int64_t>(parts, 1), taps + 1, dy.dim(2)}, DType::f32, dy.device());
    }
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1), dbias = ctx.slot(2);
    kernels::launch(kernels::causal_conv_backward, ctx.stream(),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .starts = starts.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .dbias = dbias.view,
                     .scratch = scratch.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate,
                     .accumulate_dbias = dbias.accumulate});
  }
};

void check_shape(const char* what, const Tensor& x, const Shape& expected, const char* advice) {
  INGOT_CHECK(!x.defined() || x.shape() == expected,
              ShapeMismatch(what, expected.to_vector(), x.shape().to_vector(), advice));
}

}  // namespace

Tensor causal_conv(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in,
                   const CausalConvSurroundings& around) {
  const OpScope op_scope(CausalConvNode::kName, {&x_in, &weight_in});
  INGOT_CHECK(x_in.rank() == 3, DimensionMismatch("causal_conv: x is [batch, steps, channels], got " +
                                                  to_string(x_in.shape())));
  INGOT_CHECK(weight_in.rank() == 2 && weight_in.dim(1) >= 1 && weight_in.dim(0) == x_in.dim(2),
              ShapeMismatch("causal_conv (weight)", {x_in.dim(2), -1}, weight_in.shape().to_vector(),
                            "one row of taps for each channel of x"));
  const std::int64_t batch = x_in.dim(0), steps = x_in.dim(1), channels = x_in.dim(2),
                     taps = weight_in.dim(1);
  check_shape("causal_conv (bias)", bias_in, {channels}, "one value for each channel");
  check_shape("causal_conv (past)", around.past, {batch, taps - 1, channels}, "the steps before x");
  check_shape("causal_conv (starts)", around.starts, {batch, steps}, "a step of each step's document");
  INGOT_CHECK(
      !around.starts.defined() || around.starts.dtype() == DType::i32,
      DimensionMismatch("causal_conv: starts are i32, got " + std::string(name(around.starts.dtype()))));
  if (bias_in.defined()) check_defined(CausalConvNode::kName, {&x_in, &bias_in});
  const bool recorded = grad_enabled() && (x_in.requires_grad() || weight_in.requires_grad());
  INGOT_CHECK(!around.past.defined() || !recorded,
              Error("causal_conv: a past has no gradient; put the call in a NoGrad scope"));
  const Tensor x = contiguous(x_in), weight = contiguous(weight_in);
  const Tensor bias = bias_in.defined() ? contiguous(bias_in) : bias_in;
  const Tensor past = around.past.defined() ? contiguous(to(around.past, x.dtype())) : Tensor();
  const Tensor starts = around.starts.defined() ? contiguous(around.starts) : Tensor();
  Tensor y = Tensor::empty_like(x);
  if (x.numel() > 0) {
    kernels::launch(kernels::causal_conv, current_stream(x.device()),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .bias = bias.view(),
                     .past = past.view(),
                     .starts = starts.view(),
                     .y = y.view()});
  }
  return record<CausalConvNode>(y, {&x, &weight, &bias}, x, weight, starts);
}

}  // namespace ingot
