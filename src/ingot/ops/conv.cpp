#include "ingot/ops/conv.h"

#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/kernels/conv.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using kernels::ConvGeometry;

// A view with an axis of size 1 put in: 1-d signals are images of height 1 to the kernels.
View with_unit_axis(View v, int axis) {
  if (!v) return v;
  for (int i = v.rank; i > axis; --i) {
    v.shape[static_cast<std::size_t>(i)] = v.shape[static_cast<std::size_t>(i - 1)];
    v.strides[static_cast<std::size_t>(i)] = v.strides[static_cast<std::size_t>(i - 1)];
  }
  v.shape[static_cast<std::size_t>(axis)] = 1;
  v.strides[static_cast<std::size_t>(axis)] = 1;
  ++v.rank;
  return v;
}

View image_view(const View& v, bool channels_last) {
  return v.rank == 3 ? with_unit_axis(v, channels_last ? 1 : 2) : v;
}
View filter_view(const View& v) { return v.rank == 3 ? with_unit_axis(v, 2) : v; }

// How many positions a kernel covers, from its first to its last.
std::int64_t reach_of(const char* op, std::int64_t kernel, std::int64_t dilation) {
  return checked_add(checked_mul(dilation, kernel - 1, op), 1, op);
}

Tensor scratch(std::int64_t elements, Device device) {
  return elements > 0 ? Tensor::empty({elements}, DType::f32, device) : Tensor{};
}

// `bias` may be absent.
void launch_forward(const Tensor& x, const Tensor& weight, const View& bias, const Tensor& y,
                    const ConvGeometry& geometry) {
  kernels::ConvArgs args{.x = image_view(x.view(), geometry.channels_last),
                         .weight = filter_view(weight.view()),
                         .bias = bias,
                         .y = image_view(y.view(), geometry.channels_last),
                         .scratch = {},
                         .geometry = geometry};
  const Tensor buffer = scratch(kernels::conv_scratch(args), x.device());
  args.scratch = buffer.view();
  kernels::launch(kernels::conv, current_stream(x.device()), args);
}

// The gradient of the convolution of `geometry` with respect to its input.
void launch_backward_data(const Tensor& weight, const View& dy, const View& dx, const ConvGeometry& geometry,
                          bool accumulate) {
  kernels::ConvBackwardDataArgs args{.weight = filter_view(weight.view()),
                                     .dy = image_view(dy, geometry.channels_last),
                                     .dx = image_view(dx, geometry.channels_last),
                                     .scratch = {},
                                     .geometry = geometry,
                                     .accumulate = accumulate};
  const Tensor buffer = scratch(kernels::conv_scratch(args), weight.device());
  args.scratch = buffer.view();
  kernels::launch(kernels::conv_backward_data, current_stream(weight.device()), args);
}

// The gradients of weight and bias, where they are wanted.
void launch_backward_weight(const View& x, const View& dy, const GradSlot& dweight, const GradSlot& dbias,
                            const ConvGeometry& geometry) {
  if (!dweight && !dbias) return;
  kernels::ConvBackwardWeightArgs args{.x = image_view(x, geometry.channels_last),
                                       .dy = image_view(dy, geometry.channels_last),
                                       .dweight = filter_view(dweight.view),
                                       .dbias = dbias.view,
                                       .scratch = {},
                                       .geometry = geometry,
                                       .accumulate_dweight = dweight.accumulate,
                                       .accumulate_dbias = dbias.accumulate};
  const Tensor buffer = scratch(kernels::conv_scratch(args), x.device);
  args.scratch = buffer.view();
  kernels::launch(kernels::conv_backward_weight, current_stream(x.device), args);
}

struct ConvNode final : Node {
  static constexpr const char* kName = "conv";
  SavedTensor x, weight;
  ConvGeometry geometry;
  ConvNode(const Tensor& x_, const Tensor& weight_, const ConvGeometry& geometry_)
      : x(x_), weight(weight_), geometry(geometry_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight}; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    if (const GradSlot dx = ctx.slot(0))
      launch_backward_data(weight.get(), dy, dx.view, geometry, dx.accumulate);
    const GradSlot dweight = ctx.slot(1), dbias = ctx.slot(2);
    launch_backward_weight(x.view(), dy, dweight, dbias, geometry);
  }
};

void check_geometry(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const ConvGeometry& g, int dims) {
  check_defined(op, {&x, &weight});
  const std::string where(op);
  INGOT_CHECK(
      x.rank() == dims + 2 && weight.rank() == dims + 2,
      DimensionMismatch(where + ": input and weight must have rank " + std::to_string(dims + 2) +
                        ", got input " + to_string(x.shape()) + " and weight " + to_string(weight.shape())));
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    INGOT_CHECK(g.stride[i] >= 1 && g.dilation[i] >= 1 && g.padding[i] >= 0,
                InvalidConfig(where, "stride and dilation must be at least 1 and padding at least 0, got " +
                                         std::to_string(g.stride[i]) + ", " + std::to_string(g.dilation[i]) +
                                         " and " + std::to_string(g.padding[i])));
  }
  const std::int64_t channels = x.dim(g.channels_last ? -1 : 1), outputs = weight.dim(0);
  INGOT_CHECK(g.groups >= 1 && channels % g.groups == 0 && outputs % g.groups == 0,
              InvalidConfig(where + ".groups", std::to_string(g.groups) + " does not divide the " +
                                                   std::to_string(channels) + " input and " +
                                                   std::to_string(outputs) + " output channels"));
  INGOT_CHECK(
      weight.dim(1) == channels / g.groups,
      ShapeMismatch(where + " (weight)", weight.shape().with(1, channels / g.groups).to_vector(),
                    weight.shape().to_vector(), "axis 1 of the weight is the input's channels / groups"));
  if (bias.defined()) {
    check_defined(op, {&x, &bias});
    INGOT_CHECK(bias.shape() == Shape({outputs}),
                ShapeMismatch(where + " (bias)", {outputs}, bias.shape().to_vector()));
  }
}

Tensor convolve(const char* op, const Tensor& input, const Tensor& filter, const Tensor& bias_input,
                const ConvGeometry& g, int dims) {
  const Scope scope(ScopeKind::op, op);
  check_geometry(op, input, filter, bias_input, g, dims);
  const Tensor x = contiguous(input), weight = contiguous(filter);
  const Tensor bias = bias_input.defined() ? contiguous(bias_input) : bias_input;
  Shape out = x.shape().with(g.channels_last ? dims + 1 : 1, weight.dim(0));
  for (int i = 0; i < dims; ++i) {
    const auto axis = static_cast<std::size_t>(i + 2 - dims);  // of the geometry
    const int at = i + (g.channels_last ? 1 : 2);
    const std::int64_t reach = reach_of(op, weight.dim(i + 2), g.dilation[axis]);
    const std::int64_t padded = checked_add(x.dim(at), checked_mul(2, g.padding[axis], op), op);
    INGOT_CHECK(weight.dim(i + 2) >= 1 && padded >= reach,
                DimensionMismatch(std::string(op) + ": a kernel that reaches over " + std::to_string(reach) +
                                  " does not fit into a padded input of " + std::to_string(padded) +
                                  " (input " + to_string(x.shape()) + ")"));
    out[at] = (padded - reach) / g.stride[axis] + 1;
  }
  Tensor y = Tensor::empty(out, x.dtype(), x.device());
  launch_forward(x, weight, bias.view(), y, g);
  return record<ConvNode>(y, {&x, &weight, &bias}, x, weight, g);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options) {
  return convolve("conv1d", x, weight, bias,
                  {.stride = {1, options.stride},
                   .padding = {0, options.padding},
                   .dilation = {1, options.dilation},
                   .groups = options.groups,
                   .channels_last = options.layout == ChannelLayout::last},
                  1);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  return convolve("conv2d", x, weight, bias,
                  {.stride = options.stride,
                   .padding = options.padding,
                   .dilation = options.dilation,
                   .groups = options.groups,
                   .channels_last = options.layout == ChannelLayout::last},
                  2);
}

namespace {

// The convolution is the gradient here, and its gradients are what that is made of.
struct ConvTransposeNode final : Node {
  static constexpr const char* kName = "conv_transpose";
  SavedTensor x, weight;
  ConvGeometry geometry;
  ConvTransposeNode(const Tensor& x_, const Tensor& weight_, const ConvGeometry& geometry_)
      : x(x_), weight(weight_), geometry(geometry_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&x, &weight}; }

  void backward(BackwardContext& ctx) override {
    if (ctx.needs(0)) {
      const Tensor dx = Tensor::empty_like(x.get());
      launch_forward(ctx.grad(), weight.get(), {}, dx, geometry);
      ctx.pass(0, dx);
    }
    launch_backward_weight(ctx.grad().view(), x.view(), ctx.slot(1), {}, geometry);
  }
};

// The shape of the result, once all is found to fit.
Shape transposed_shape(const char* op, const Tensor& x, const Tensor& weight, const ConvGeometry& g,
                       const std::array<std::int64_t, 2>& output_padding, int dims) {
  check_defined(op, {&x, &weight});
  const std::string where(op);
  INGOT_CHECK(
      x.rank() == dims + 2 && weight.rank() == dims + 2,
      DimensionMismatch(where + ": input and weight must have rank " + std::to_string(dims + 2) +
                        ", got input " + to_string(x.shape()) + " and weight " + to_string(weight.shape())));
  const int channel_axis = g.channels_last ? dims + 1 : 1;
  const std::int64_t channels = x.dim(channel_axis);
  INGOT_CHECK(g.groups >= 1 && channels % g.groups == 0,
              InvalidConfig(where + ".groups", std::to_string(g.groups) + " does not divide the " +
                                                   std::to_string(channels) + " input channels"));
  INGOT_CHECK(weight.dim(0) == channels,
              ShapeMismatch(where + " (weight)", weight.shape().with(0, channels).to_vector(),
                            weight.shape().to_vector(), "axis 0 of the weight is the input's channels"));
  Shape out = x.shape().with(channel_axis, checked_mul(weight.dim(1), g.groups, op));
  for (int i = 0; i < dims; ++i) {
    const auto axis = static_cast<std::size_t>(i + 2 - dims);
    const int at = i + (g.channels_last ? 1 : 2);
    INGOT_CHECK(
        g.stride[axis] >= 1 && g.dilation[axis] >= 1 && g.padding[axis] >= 0 && output_padding[axis] >= 0 &&
            output_padding[axis] < g.stride[axis],
        InvalidConfig(where,
                      "stride and dilation must be at least 1, padding at least 0 and "
                      "output_padding less than the stride, got " +
                          std::to_string(g.stride[axis]) + ", " + std::to_string(g.dilation[axis]) + ", " +
                          std::to_string(g.padding[axis]) + " and " + std::to_string(output_padding[axis])));
    const std::int64_t spread = checked_mul(x.dim(at) - 1, g.stride[axis], op);
    const std::int64_t all = checked_add(
        checked_add(spread, reach_of(op, weight.dim(i + 2), g.dilation[axis]), op), output_padding[axis], op);
    out[at] = checked_sub(all, checked_mul(2, g.padding[axis], op), op);
    INGOT_CHECK(
        x.dim(at) >= 1 && weight.dim(i + 2) >= 1 && out[at] >= 1,
        DimensionMismatch(where + ": nothing is left of an input " + to_string(x.shape()) + " with weight " +
                          to_string(weight.shape()) + " and padding " + std::to_string(g.padding[axis])));
  }
  return out;
}

Tensor convolve_transposed(const char* op, const Tensor& input, const Tensor& filter, const Tensor& bias,
                           const ConvGeometry& g, const std::array<std::int64_t, 2>& output_padding,
                           int dims) {
  const Shape out = transposed_shape(op, input, filter, g, output_padding, dims);
  const Tensor x = contiguous(input), weight = contiguous(filter);
  Tensor y = Tensor::empty(out, x.dtype(), x.device());
  launch_backward_data(weight, x.view(), y.view(), g, false);
  y = record<ConvTransposeNode>(y, {&x, &weight}, x, weight, g);
  if (!bias.defined()) return y;
  check_defined(op, {&x, &bias});
  const int channel_axis = g.channels_last ? dims + 1 : 1;
  INGOT_CHECK(bias.shape() == Shape({out[channel_axis]}),
              ShapeMismatch(std::string(op) + " (bias)", {out[channel_axis]}, bias.shape().to_vector()));
  Shape along = bias.shape();
  while (along.rank() < y.rank() - channel_axis) along = along.insert(along.rank(), 1);
  return add(y, reshape(bias, along));
}

}  // namespace

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  return convolve_transposed("conv_transpose1d", x, weight, bias,
                             {.stride = {1, options.stride},
                              .padding = {0, options.padding},
                              .dilation = {1, options.dilation},
                              .groups = options.groups,
                              .channels_last = options.layout == ChannelLayout::last},
                             {0, options.output_padding}, 1);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  return convolve_transposed("conv_transpose2d", x, weight, bias,
                             {.stride = options.stride,
                              .padding = options.padding,
                              .dilation = options.dilation,
                              .groups = options.groups,
                              .channels_last = options.layout == ChannelLayout::last},
                             options.output_padding, 2);
}

Tensor pack_conv1d_weight(const Tensor& weight_input) {
  const OpScope op_scope("pack_conv1d_weight", {&weight_input});
  INGOT_CHECK(weight_input.rank() == 3,
              DimensionMismatch("pack_conv1d_weight: the weight must be [outputs, channels, kernel], got " +
                                to_string(weight_input.shape())));
  const Tensor weight = contiguous(weight_input);
  Tensor packed = Tensor::empty({(weight.dim(0) + kernels::kConvPanel - 1) / kernels::kConvPanel,
                                 weight.dim(1) * weight.dim(2), kernels::kConvPanel},
                                weight.dtype(), weight.device());
  kernels::launch(kernels::conv_pack, current_stream(weight.device()),
                  {.weight = weight.view(), .packed = packed.view()});
  return packed;
}

Tensor conv1d_packed(const Tensor& input, const Tensor& packed, std::int64_t outputs, std::int64_t padding,
                     const Tensor& bias) {
  const OpScope op_scope("conv1d_packed", {&input, &packed});
  const std::int64_t panels = (outputs + kernels::kConvPanel - 1) / kernels::kConvPanel;
  INGOT_CHECK(
      input.rank() == 3 && packed.rank() == 3 && input.dim(2) > 0 && packed.dim(1) % input.dim(2) == 0 &&
          packed.dim(0) == panels && packed.dim(2) == kernels::kConvPanel,
      DimensionMismatch("conv1d_packed: an input of " + to_string(input.shape()) + " and packed weights of " +
                        to_string(packed.shape()) + " for " + std::to_string(outputs) +
                        " outputs do not fit; pack the weight with pack_conv1d_weight"));
  const Tensor x = contiguous(input);
  const std::int64_t width = x.dim(1) + 2 * padding - packed.dim(1) / x.dim(2) + 1;
  INGOT_CHECK(padding >= 0 && width >= 1,
              DimensionMismatch("conv1d_packed: a kernel of " + std::to_string(packed.dim(1) / x.dim(2)) +
                                " does not fit into " + to_string(x.shape()) + " with padding " +
                                std::to_string(padding)));
  if (bias.defined()) {
    check_defined("conv1d_packed", {&x, &bias});
    INGOT_CHECK(bias.shape() == Shape({outputs}) && bias.is_contiguous(),
                ShapeMismatch("conv1d_packed (bias)", {outputs}, bias.shape().to_vector()));
  }
  Tensor y = Tensor::empty({x.dim(0), width, outputs}, x.dtype(), x.device());
  kernels::ConvPackedArgs args{.x = x.view(),
                               .packed = packed.view(),
                               .bias = bias.view(),
                               .y = y.view(),
                               .scratch = {},
                               .padding = padding};
  const Tensor buffer = scratch(kernels::conv_scratch(args), x.device());
  args.scratch = buffer.view();
  kernels::launch(kernels::conv_packed, current_stream(x.device()), args);
  return y;
}

}  // namespace ingot
