#include "ingot/ops/group_norm.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

// [N, C, S] or [N, S, C]: the positions of a sample as one axis.
View three_axes(const View& v, bool channels_last) {
  if (!v) return v;
  const std::int64_t n = v.dim(0), c = v.dim(channels_last ? -1 : 1);
  std::int64_t positions = 1;
  for (int i = channels_last ? 1 : 2; i < v.rank - (channels_last ? 1 : 0); ++i) positions *= v.dim(i);
  return contiguous_view(v.data, channels_last ? Shape{n, positions, c} : Shape{n, c, positions}, v.dtype,
                         v.device);
}

struct GroupNormNode final : Node {
  static constexpr const char* kName = "group_norm";
  SavedTensor x, weight, bias, mean, rstd;
  GroupNormOptions options;
  GroupNormNode(const Tensor& x_, const Tensor& weight_, const Tensor& bias_, const Tensor& mean_,
                const Tensor& rstd_, const GroupNormOptions& options_)
      : x(x_), weight(weight_), bias(bias_), mean(mean_), rstd(rstd_), options(options_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight, &bias, &mean, &rstd}; }

  void backward(BackwardContext& ctx) override {
    const bool last = options.layout == ChannelLayout::last;
    const View in = three_axes(x.view(), last);
    const std::int64_t channels = in.dim(last ? 2 : 1), positions = in.dim(last ? 1 : 2);
    const Tensor scratch =
        Tensor::empty({num_threads(), (positions + 7) * channels}, mean.get().dtype(), x.get().device());
    const GradSlot dx = ctx.slot(0), dweight = ctx.slot(1), dbias = ctx.slot(2);
    kernels::launch(kernels::group_norm_backward, ctx.stream(),
                    {.x = in,
                     .weight = weight.view(),
                     .bias = bias.view(),
                     .mean = mean.view(),
                     .rstd = rstd.view(),
                     .dy = three_axes(ctx.grad().view(), last),
                     .dx = three_axes(dx.view, last),
                     .dweight = dweight.view,
                     .dbias = dbias.view,
                     .scratch = scratch.view(),
                     .groups = options.groups,
                     .channels_last = last,
                     .activation = options.activation,
                     .accumulate_dx = dx.accumulate,
                     .accumulate_dweight = dweight.accumulate,
                     .accumulate_dbias = dbias.accumulate});
  }
};

}  // namespace

Tensor group_norm(const Tensor& input, const Tensor& weight_input, const Tensor& bias_input,
                  const GroupNormOptions& options) {
  const OpScope op_scope("group_norm", {&input, &weight_input, &bias_input});
  INGOT_CHECK(input.rank() >= 2,
              DimensionMismatch("group_norm: the input needs a batch and a channel axis, got " +
                                to_string(input.shape())));
  const bool last = options.layout == ChannelLayout::last;
  const std::int64_t channels = input.dim(last ? -1 : 1);
  INGOT_CHECK(options.groups >= 1 && channels % options.groups == 0,
              InvalidConfig("group_norm.groups", std::to_string(options.groups) + " does not divide the " +
                                                     std::to_string(channels) + " channels"));
  for (const Tensor* tensor : {&weight_input, &bias_input}) {
    INGOT_CHECK(tensor->shape() == Shape({channels}),
                ShapeMismatch(tensor == &bias_input ? "group_norm (bias)" : "group_norm (weight)", {channels},
                              tensor->shape().to_vector(), "weight and bias have one value per channel"));
  }
  const Tensor x = contiguous(input), weight = contiguous(weight_input), bias = contiguous(bias_input);
  const DType accumulator = accumulator_dtype(x.dtype());
  Tensor y = Tensor::empty_like(x);
  Tensor mean = Tensor::empty({x.dim(0), options.groups}, accumulator, x.device());
  Tensor rstd = Tensor::empty({x.dim(0), options.groups}, accumulator, x.device());
  const Tensor scratch = Tensor::empty({num_threads(), 3 * channels}, accumulator, x.device());
  kernels::launch(kernels::group_norm, current_stream(x.device()),
                  {.x = three_axes(x.view(), last),
                   .weight = weight.view(),
                   .bias = bias.view(),
                   .y = three_axes(y.view(), last),
                   .mean = mean.view(),
                   .rstd = rstd.view(),
                   .scratch = scratch.view(),
                   .groups = options.groups,
                   .eps = options.eps,
                   .channels_last = last,
                   .activation = options.activation});
  return record<GroupNormNode>(y, {&x, &weight, &bias}, x, weight, bias, mean, rstd, options);
}

}  // namespace ingot
