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
  float weight_offset;
  RmsNormNode(const Tensor& x_, const Tensor& weight_, const Tensor& rstd_, float weight_offset_)
      : x(x_), weight(weight_), rstd(rstd_), weight_offset(weight_offset_) {}
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
                     .weight_offset = weight_offset,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate});
  }
};

struct LayerNormNode final : Node {
  static constexpr const char* kName = "layer_norm";
  SavedTensor x, weight, mean, rstd;
  LayerNormNode(const Tensor& x_, const Tensor& weight_, const Tensor& mean_, const Tensor& rstd_)
      : x(x_), weight(weight_), mean(mean_), rstd(rstd_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight, &mean, &rstd}; }

  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    Tensor partials;
    if (ctx.needs(1) || ctx.needs(2)) {
      partials = Tensor::empty({num_threads(), 2, dy.dim(-1)}, rstd.get().dtype(), dy.device());
    }
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1), dbias = ctx.slot(2);
    kernels::launch(kernels::layer_norm_backward, ctx.stream(),
                    {.x = x.view(),
                     .weight = weight.view(),
                     .mean = mean.view(),
                     .rstd = rstd.view(),
                     .dy = dy.view(),
                     .dx = dx.view,
                     .dweight = dweight.view,
                     .dbias = dbias.view,
                     .partials = partials.view(),
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate,
                     .accumulate_dbias = dbias.accumulate});
  }
};

void check_per_feature(const char* where, const Tensor& x, const Tensor& values) {
  if (!values.defined()) return;
  check_defined(where, {&x, &values});
  INGOT_CHECK(x.rank() >= 1 && values.shape() == Shape({x.dim(-1)}),
              ShapeMismatch(where, {x.rank() >= 1 ? x.dim(-1) : 1}, values.shape().to_vector(),
                            "there is one value per element of the last axis"));
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, float eps) {
  check_defined("layer_norm", {&input});
  INGOT_CHECK(input.rank() >= 1, DimensionMismatch("layer_norm: a scalar has no last axis"));
  check_per_feature("layer_norm (weight)", input, weight);
  check_per_feature("layer_norm (bias)", input, bias);
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  const DType accumulator = accumulator_dtype(x.dtype());
  Tensor mean = Tensor::empty(x.shape().drop_last(), accumulator, x.device());
  Tensor rstd = Tensor::empty(x.shape().drop_last(), accumulator, x.device());
  kernels::launch(kernels::layer_norm, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .bias = bias.view(),
                   .y = y.view(),
                   .mean = mean.view(),
                   .rstd = rstd.view(),
                   .eps = eps});
  return record<LayerNormNode>(y, {&x, &weight, &bias}, x, weight, mean, rstd);
}

Tensor rms_norm(const Tensor& input, const Tensor& weight, float eps, float weight_offset) {
  check_defined("rms_norm", {&input, &weight});
  INGOT_CHECK(
      input.rank() >= 1 && weight.shape() == Shape({input.dim(-1)}),
      ShapeMismatch("rms_norm (weight)", {input.rank() >= 1 ? input.dim(-1) : 1}, weight.shape().to_vector(),
                    "the weight has one value per element of the last axis"));
  const Tensor x = contiguous(input);
  Tensor y = Tensor::empty_like(x);
  Tensor rstd = Tensor::empty(x.shape().drop_last(), accumulator_dtype(x.dtype()), x.device());
  kernels::launch(kernels::rms_norm, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .y = y.view(),
                   .rstd = rstd.view(),
                   .eps = eps,
                   .weight_offset = weight_offset});
  return record<RmsNormNode>(y, {&x, &weight}, x, weight, rstd, weight_offset);
}

}  // namespace ingot
