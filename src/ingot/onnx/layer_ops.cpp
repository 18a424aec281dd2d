#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/batch_norm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/group_norm.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Convolutions and normalisations.

namespace ingot::onnx {
namespace {

/// One or two spatial axes, already padded.
Tensor convolve(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Window& w, std::int64_t groups) {
  if (x.rank() == 3) {
    return conv1d(x, weight, bias, {.stride = w.strides[0], .dilation = w.dilations[0], .groups = groups});
  }
  if (x.rank() != 4) call.refuse("convolution over " + std::to_string(x.rank() - 2) + " axes");
  return conv2d(x, weight, bias,
                {.stride = {w.strides[0], w.strides[1]},
                 .dilation = {w.dilations[0], w.dilations[1]},
                 .groups = groups});
}

}  // namespace

Tensor convolution(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  INGOT_CHECK(x.rank() == weight.rank() && x.rank() > 2,
              DimensionMismatch(call.where() + ": ranks of x and weight"));
  const std::vector<std::int64_t> kernel(weight.dims().begin() + 2, weight.dims().end());
  Window w = read_window(call, x, kernel);
  const std::vector<std::int64_t> declared = call.integers("kernel_shape", kernel);
  INGOT_CHECK(declared == kernel, ShapeMismatch(call.where() + ": kernel_shape", kernel, declared,
                                                "it is what the weight has behind its channels"));
  if (x.rank() == 4 && w.begin == w.end) {  // padding that the op itself knows
    return conv2d(x, weight, bias,
                  {.stride = {w.strides[0], w.strides[1]},
                   .padding = {w.begin[0], w.begin[1]},
                   .dilation = {w.dilations[0], w.dilations[1]},
                   .groups = call.integer("group", 1)});
  }
  return convolve(call, pad_spatial(x, w, 0), weight, bias, w, call.integer("group", 1));
}

namespace {

std::vector<Tensor> plain_convolution(const OpCall& call) {
  return {convolution(call, call.in(0), call.in(1), call.optional(2))};
}

/// One axis of a transposed convolution. All that the filters reach is `full` places; the result is those
/// from `first` on, `size` of them, the last of which may lie beyond.
struct TransposedAxis {
  std::int64_t stride = 1, dilation = 1, full = 0, first = 0, size = 0;

  // What the op is to leave out at either end, and to add at its end: what it cannot is cut off, or added,
  // after.
  std::int64_t padding() const { return beyond() < stride ? first : 0; }
  std::int64_t output_padding() const {
    return std::clamp<std::int64_t>(first + size - (full - padding()), 0, stride - 1);
  }
  std::int64_t computed() const { return full - 2 * padding() + output_padding(); }

 private:
  std::int64_t beyond() const { return first + size - (full - first); }
};

/// All places that filters of `kernel` reach, one at every stride from each of `size` places.
std::int64_t spread(std::int64_t size, std::int64_t stride, std::int64_t kernel, std::int64_t dilation) {
  return checked_add(checked_mul(size - 1, stride, "ConvTranspose"),
                     checked_add(checked_mul(kernel - 1, dilation, "ConvTranspose"), 1, "ConvTranspose"),
                     "ConvTranspose");
}

std::vector<TransposedAxis> transposed_axes(const OpCall& call, const Tensor& x, const Tensor& weight) {
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  const std::vector<std::int64_t> strides = read_window_numbers(call, "strides", axes, 1, 1),
                                  dilations = read_window_numbers(call, "dilations", axes, 1, 1),
                                  extra = read_window_numbers(call, "output_padding", axes, 0, 0),
                                  pads = read_window_numbers(call, "pads", 2 * axes, 0, -kMaxWindow),
                                  wanted = call.integers("output_shape");
  INGOT_CHECK(wanted.empty() || wanted.size() >= axes,
              FormatError(call.where(), -1, "output_shape", "has fewer axes than the input"));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  std::vector<TransposedAxis> result;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = x.dim(static_cast<int>(i) + 2), kernel = weight.dim(static_cast<int>(i) + 2);
    TransposedAxis axis{.stride = strides[i],
                        .dilation = dilations[i],
                        .full = spread(size, strides[i], kernel, dilations[i]),
                        .first = pads[i]};
    axis.size = axis.full + extra[i] - pads[i] - pads[i + axes];
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      axis.size =
          wanted.empty() ? checked_mul(size, strides[i], "ConvTranspose") : wanted[wanted.size() - axes + i];
      const std::int64_t total = checked_sub(axis.full + extra[i], axis.size, "ConvTranspose"),
                         half = total / 2;
      axis.first = automatic == "SAME_UPPER" ? half : total - half;
      if (total < 0) axis.first = 0;  // an output larger than what there is grows at its end
    }
    INGOT_CHECK(axis.size > 0 && axis.first >= 0,
                DimensionMismatch(call.where() + ": nothing is left between the padding"));
    result.push_back(axis);
  }
  return result;
}

/// From what the op computed to what is asked for.
Tensor fitted(Tensor y, const std::vector<TransposedAxis>& axes) {
  Padding missing{std::vector<std::int64_t>(axes.size() + 2, 0),
                  std::vector<std::int64_t>(axes.size() + 2, 0)};
  bool all_there = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t begin = axes[i].first - axes[i].padding(),
                       there = std::min(axes[i].size, axes[i].computed() - begin);
    y = narrow(y, static_cast<int>(i) + 2, begin, there);
    missing.after[i + 2] = axes[i].size - there;
    all_there = all_there && there == axes[i].size;
  }
  return all_there ? y : pad_with(y, missing);
}

std::vector<Tensor> transposed_convolution(const OpCall& call) {
  const Tensor &x = call.in(0), &weight = call.in(1);
  INGOT_CHECK(x.rank() == weight.rank() && x.rank() > 2,
              DimensionMismatch(call.where() + ": ranks of x and weight"));
  if (x.rank() > 4) call.refuse("convolution over " + std::to_string(x.rank() - 2) + " axes");
  const std::vector<TransposedAxis> axes = transposed_axes(call, x, weight);
  const std::int64_t groups = call.integer("group", 1);
  Tensor y;
  if (const TransposedAxis& row = axes.front(); axes.size() == 1) {
    y = conv_transpose1d(x, weight, {},
                         {.stride = row.stride,
                          .padding = row.padding(),
                          .output_padding = row.output_padding(),
                          .dilation = row.dilation,
                          .groups = groups});
  } else {
    const TransposedAxis& column = axes[1];
    y = conv_transpose2d(x, weight, {},
                         {.stride = {row.stride, column.stride},
                          .padding = {row.padding(), column.padding()},
                          .output_padding = {row.output_padding(), column.output_padding()},
                          .dilation = {row.dilation, column.dilation},
                          .groups = groups});
  }
  y = fitted(y, axes);
  if (!call.has(2)) return {y};
  Tensor bias = call.in(2);
  for (std::size_t i = 0; i < axes.size(); ++i) bias = unsqueeze(bias, bias.rank());
  return {add(y, bias)};
}

std::vector<Tensor> batch_normalization(const OpCall& call) {
  if (call.integer("training_mode", 0) != 0) call.refuse("training mode");
  return {batch_norm(call.in(0), call.in(1), call.in(2), call.in(3), call.in(4),
                     {.training = false, .eps = call.number("epsilon", 1e-5F)})};
}

std::vector<Tensor> layer_normalization(const OpCall& call) {
  const Tensor& x = call.in(0);
  const int axis = call.axis("axis", -1, x.rank());
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.dim(i);
  const std::int64_t width = rows == 0 ? 0 : x.numel() / rows;
  const float eps = call.number("epsilon", 1e-5F);
  const Tensor flat = reshape(x, {rows, width});
  const auto flat_weight = [&](const Tensor& w) {
    return w.defined()
               ? contiguous(reshape(broadcast_to(w, Shape(x.dims().subspan(static_cast<std::size_t>(axis)))),
                                    {width}))
               : w;
  };
  std::vector<Tensor> outputs{
      reshape(layer_norm(flat, flat_weight(call.in(1)), flat_weight(call.optional(2)), eps), x.shape())};
  if (call.output_count() > 1) {
    Shape shape = x.shape();
    for (int i = axis; i < x.rank(); ++i) shape[i] = 1;
    outputs.push_back(reshape(mean(flat, {-1}), shape));
    outputs.push_back(reshape(rsqrt(var(flat, {-1}, 0) + eps), shape));
  }
  return outputs;
}

std::vector<Tensor> rms_normalization(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (call.axis("axis", -1, x.rank()) != x.rank() - 1) call.refuse("normalises more than the last axis");
  return {rms_norm(x, call.in(1), call.number("epsilon", 1e-5F))};
}

std::vector<Tensor> instance_normalization(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  return {group_norm(x, call.in(1), call.in(2), {.groups = x.dim(1), .eps = call.number("epsilon", 1e-5F)})};
}

std::vector<Tensor> group_normalization(const OpCall& call) {
  if (call.opset() < 21) call.refuse("weights for each group (before operator set 21)");
  return {group_norm(call.in(0), call.in(1), call.in(2),
                     {.groups = call.integer("num_groups", 1), .eps = call.number("epsilon", 1e-5F)})};
}

/// x / (bias + alpha / size · Σ x² over `size` channels around)^beta (Krizhevsky et al. 2012).
std::vector<Tensor> local_response_norm(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  const std::int64_t size = call.integer("size", 1), channels = x.dim(1);
  INGOT_CHECK(size > 0 && size <= kMaxElements,
              FormatError(call.where(), -1, "size", fmt::format("is {}, expected channels", size)));
  const double alpha = call.number("alpha", 1e-4F), beta = call.number("beta", 0.75F),
               bias = call.number("bias", 1);
  const Tensor squares = square(x);
  std::vector<Tensor> sums;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int64_t first = std::max<std::int64_t>(0, c - (size - 1) / 2);
    const std::int64_t last = std::min(channels - 1, c + size / 2);
    sums.push_back(sum(narrow(squares, 1, first, last - first + 1), {1}, true));
  }
  return {mul(x, pow(concat(sums, 1) * (alpha / static_cast<double>(size)) + bias, -beta))};
}

std::vector<Tensor> mean_variance_norm(const OpCall& call) {
  const Tensor& x = call.in(0);
  const Axes axes = call.axes_of(call.integers("axes", {0, 2, 3}), x.rank());
  return {div(sub(x, mean(x, axes, true)), sqrt(var(x, axes, 0, true)) + 1e-9)};
}

constexpr std::array kLayerOps = {OpRow{"BatchNormalization", batch_normalization, kEveryInput},
                                  OpRow{"Conv", plain_convolution, kEveryInput},
                                  OpRow{"ConvTranspose", transposed_convolution, kEveryInput},
                                  OpRow{"GroupNormalization", group_normalization, kEveryInput},
                                  OpRow{"InstanceNormalization", instance_normalization, kEveryInput},
                                  OpRow{"LRN", local_response_norm, kEveryInput},
                                  OpRow{"LayerNormalization", layer_normalization, kEveryInput},
                                  OpRow{"MeanVarianceNormalization", mean_variance_norm, kEveryInput},
                                  OpRow{"RMSNormalization", rms_normalization, kEveryInput}};

}  // namespace

std::span<const OpRow> layer_ops() { return kLayerOps; }

}  // namespace ingot::onnx
