#include "ingot/ops/batch_norm.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/batch_norm.h"
#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"

namespace ingot {
namespace {

void check_channels(const char* what, const Tensor& x, const Tensor& values) {
  if (!values.defined()) return;
  check_defined("batch_norm", {&x, &values});
  INGOT_CHECK(values.shape() == Shape({x.dim(1)}), ShapeMismatch(what, {x.dim(1)}, values.shape().to_vector(),
                                                                 "there is one value per channel (axis 1)"));
}

// x as [N, C, S]. [N, C] with adjacent channels is S = 1.
View three_axes(const View& x) {
  if (!x) return x;
  const std::int64_t positions = x.dim(0) * x.dim(1) == 0 ? 0 : x.numel() / (x.dim(0) * x.dim(1));
  return contiguous_view(x.data, {x.dim(0), x.dim(1), positions}, x.dtype, x.device);
}

Tensor scratch_for(const Tensor& x, std::int64_t width) {
  return Tensor::empty({kernels::scratch_parts(x.device()), width}, DType::f64, x.device());
}

struct BatchNormNode final : Node {
  static constexpr const char* kName = "batch_norm";
  SavedTensor x, mean, variance, weight;
  float eps;
  bool own_statistics;
  BatchNormNode(const Tensor& x_, const Tensor& mean_, const Tensor& variance_, const Tensor& weight_,
                float eps_, bool own_statistics_)
      : x(x_),
        mean(mean_),
        variance(variance_),
        weight(weight_),
        eps(eps_),
        own_statistics(own_statistics_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &mean, &variance, &weight}; }

  void backward(BackwardContext& ctx) override {
    const Tensor scratch = scratch_for(x.get(), 2 * x.get().dim(1));
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1), dbias = ctx.slot(2);
    kernels::launch(kernels::batch_norm_backward, ctx.stream(),
                    {.x = three_axes(x.view()),
                     .mean = mean.view(),
                     .variance = variance.view(),
                     .weight = weight.view(),
                     .dy = three_axes(ctx.grad().view()),
                     .dx = three_axes(dx.view),
                     .dweight = dweight.view,
                     .dbias = dbias.view,
                     .scratch = scratch.view(),
                     .eps = eps,
                     .own_statistics = own_statistics,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate,
                     .accumulate_dbias = dbias.accumulate});
  }
};

// Moves running statistics towards those of a batch of `count` values per channel.
void update_running(const Tensor& running, const Tensor& batch, double momentum, double factor = 1) {
  if (!running.defined()) return;
  const NoGrad no_grad;
  mul_(running, 1 - momentum);
  add_(running, to(batch, running.dtype()), momentum * factor);
}

}  // namespace

void BatchNormOptions::validate() const {
  INGOT_CHECK(momentum >= 0 && momentum <= 1,
              InvalidConfig("batch_norm.momentum", "must be in [0, 1], got " + std::to_string(momentum)));
  INGOT_CHECK(eps > 0, InvalidConfig("batch_norm.eps", "must be positive, got " + std::to_string(eps)));
}

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  options.validate();
  const OpScope op_scope("batch_norm", {&input});
  INGOT_CHECK(input.rank() >= 2,
              DimensionMismatch("batch_norm takes [N, C, ...], got " + to_string(input.shape())));
  check_channels("batch_norm (weight)", input, weight);
  check_channels("batch_norm (bias)", input, bias);
  check_channels("batch_norm (running_mean)", input, running_mean);
  check_channels("batch_norm (running_var)", input, running_var);
  const DType dtype = accumulator_dtype(input.dtype());  // of all that is by channel
  const Tensor x = contiguous(input);
  const auto as_computed = [&](const Tensor& values) {
    return values.defined() ? contiguous(to(values, dtype)) : values;
  };
  Tensor mean, variance;
  if (options.training) {
    const std::int64_t count = x.dim(1) > 0 ? x.numel() / x.dim(1) : 0;
    INGOT_CHECK(count > 1, DimensionMismatch("batch_norm: a channel of " + to_string(x.shape()) +
                                             " has fewer than two values; train on more than one sample"));
    mean = Tensor::empty({x.dim(1)}, dtype, x.device());
    variance = Tensor::empty({x.dim(1)}, dtype, x.device());
    kernels::launch(kernels::batch_statistics, current_stream(x.device()),
                    {.x = three_axes(x.view()),
                     .mean = mean.view(),
                     .variance = variance.view(),
                     .scratch = scratch_for(x, x.dim(1)).view()});
    update_running(running_mean, mean, options.momentum);
    update_running(running_var, variance, options.momentum,
                   static_cast<double>(count) / static_cast<double>(count - 1));
  } else {
    INGOT_CHECK(running_mean.defined() && running_var.defined(),
                Error("batch_norm: running_mean and running_var are needed outside training"));
    mean = as_computed(running_mean.detach());
    variance = as_computed(running_var.detach());
  }
  const Tensor scale = as_computed(weight), shift = as_computed(bias);
  Tensor y = Tensor::empty_like(x);
  kernels::launch(kernels::batch_norm, current_stream(x.device()),
                  {.x = three_axes(x.view()),
                   .mean = mean.view(),
                   .variance = variance.view(),
                   .weight = scale.view(),
                   .bias = shift.view(),
                   .y = three_axes(y.view()),
                   .eps = options.eps});
  return record<BatchNormNode>(y, {&x, &scale, &shift}, x, mean, variance, scale, options.eps,
                               options.training);
}

}  // namespace ingot
