#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/loss.h"

namespace ingot {
namespace {

using kernels::PointwiseLoss;

struct PointwiseLossNode final : Node {
  static constexpr const char* kName = "pointwise_loss";
  SavedTensor x, target;
  PointwiseLoss kind;
  float delta;
  double scale;
  PointwiseLossNode(const Tensor& x_, const Tensor& target_, PointwiseLoss kind_, float delta_, double scale_)
      : x(x_), target(target_), kind(kind_), delta(delta_), scale(scale_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &target}; }

  void backward(BackwardContext& ctx) override {
    if (x.view().data == target.view().data) return separately(ctx);
    const GradSlot dx = ctx.slot(0), dtarget = ctx.slot(1);
    launch(ctx, dx, dtarget);
  }

 private:
  // One tensor on both sides: the second gradient adds to the first.
  void separately(BackwardContext& ctx) {
    if (const GradSlot dx = ctx.slot(0)) launch(ctx, dx, {});
    if (const GradSlot dtarget = ctx.slot(1)) launch(ctx, {}, dtarget);
  }
  void launch(BackwardContext& ctx, const GradSlot& dx, const GradSlot& dtarget) {
    kernels::launch(kernels::pointwise_loss_backward, ctx.stream(),
                    {.x = x.view(),
                     .target = target.view(),
                     .dloss = ctx.grad().view(),
                     .dx = dx.view,
                     .dtarget = dtarget.view,
                     .kind = kind,
                     .delta = delta,
                     .scale = scale,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dtarget = dtarget.accumulate});
  }
};

Tensor apply(const char* op, PointwiseLoss kind, const Tensor& input, const Tensor& goal, Reduction reduction,
             float delta = 1.0F) {
  const OpScope op_scope(op, {&input, &goal});
  INGOT_CHECK(input.shape() == goal.shape(),
              ShapeMismatch(op, input.shape().to_vector(), goal.shape().to_vector(),
                            "input and target have one shape (broadcast or reshape one first)"));
  const Tensor x = contiguous(input), target = contiguous(goal);
  const bool reduced = reduction != Reduction::none;
  const double scale =
      reduction == Reduction::mean && x.numel() > 0 ? 1.0 / static_cast<double>(x.numel()) : 1.0;
  const DType accumulator = accumulator_dtype(x.dtype());
  Tensor y = Tensor::empty(reduced ? Shape{} : x.shape(), reduced ? accumulator : x.dtype(), x.device());
  Tensor partials;
  if (reduced) partials = Tensor::empty({kernels::scratch_parts(x.device())}, accumulator, x.device());
  kernels::launch(kernels::pointwise_loss, current_stream(x.device()),
                  {.x = x.view(),
                   .target = target.view(),
                   .loss = y.view(),
                   .partials = partials.view(),
                   .kind = kind,
                   .delta = delta,
                   .scale = scale});
  return record<PointwiseLossNode>(y, {&x, &target}, x, target, kind, delta, scale);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return apply("mse_loss", PointwiseLoss::mse, input, target, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return apply("l1_loss", PointwiseLoss::l1, input, target, reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, float delta, Reduction reduction) {
  INGOT_CHECK(delta > 0, InvalidConfig("delta", "must be positive, got " + std::to_string(delta)));
  return apply("huber_loss", PointwiseLoss::huber, input, target, reduction, delta);
}

Tensor bce_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return apply("bce_loss", PointwiseLoss::bce, input, target, reduction);
}

Tensor bce_with_logits_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return apply("bce_with_logits_loss", PointwiseLoss::bce_with_logits, input, target, reduction);
}

}  // namespace ingot
