#include "ingot/ops/norm.h"

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/norm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

struct RmsNormNode final : Node {
  static constexpr const char* kName = "rms_norm";
  SavedTensor x, weight, rstd;
  RmsNormNode(const Tensor& x_, const Tensor& weight_, const Tensor& rstd_)
      : x(x_), weight(weight_), rstd(rstd_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight, &rstd}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    Tensor partials;
    if (ctx.needs(1)) partials = Tensor::empty({num_threads(), dy.dim(-1)}, rstd.get().dtype(), dy.device());
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1);
    kernels::launch(kernels::rms_norm_backward, ctx.stream(),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .rstd = rstd.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .partials = partials.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate});
  }
};

}  // namespace

Tensor rms_norm(const Tensor& input, const Tensor& weight, float eps) {
  check_defined("rms_norm", {&input, &weight});
  INGOT_CHECK(
      input.rank() >= 1 && weight.shape() == Shape({input.dim(-1)}),
      ShapeMismatch("rms_norm (weight)", {input.rank() >= 1 ? input.dim(-1) : 1}, weight.shape().to_vector(),
                    "the weight has one value per element of the last axis"));
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  Tensor rstd = Tensor::empty(x.shape().drop_last(), accumulator_dtype(x.dtype()), x.device());
  kernels::launch(kernels::rms_norm, current_stream(x.device()),
                  {.x = x.view(), .weight = weight.view(), .y = y.view(), .rstd = rstd.view(), .eps = eps});
  return record<RmsNormNode>(y, {&x, &weight}, x, weight, rstd);
}

}  // namespace ingot
