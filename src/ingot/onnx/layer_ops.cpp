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

// Convolutions and normalizations.

namespace ingot::onnx {
namespace {

/// Three spatial axes, already padded: for each slice of the filters along the first of them a convolution
/// over the other two, summed.
Tensor convolve_volume(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Window& w, std::int64_t groups) {
  const std::int64_t reach = (w.kernel[0] - 1) * w.dilations[0] + 1;
  INGOT_CHECK(x.dim(2) >= reach, DimensionMismatch(call.where() + ": the filters are larger than the input"));
  const std::int64_t positions = (x.dim(2) - reach) / w.strides[0] + 1;
  Tensor total;
  for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
    const std::int64_t first = i * w.dilations[0];
    const Tensor slices =
        transpose(slice(x, 2, first, first + (positions - 1) * w.strides[0] + 1, w.strides[0]), 1, 2);
    const Tensor maps = reshape(contiguous(slices), {x.dim(0) * positions, x.dim(1), x.dim(3), x.dim(4)});
    const Tensor part = conv2d(maps, contiguous(select(weight, 2, i)), i == 0 ? bias : Tensor(),
                               {.stride = {w.strides[1], w.strides[2]},
                                .dilation = {w.dilations[1], w.dilations[2]},
                                .groups = groups});
    total = total.defined() ? add(total, part) : part;
  }
  const Tensor stacked = reshape(total, {x.dim(0), positions, weight.dim(0), total.dim(2), total.dim(3)});
  return contiguous(transpose(stacked, 1, 2));
}

/// One to three spatial axes, already padded.
Tensor convolve(const OpCall& call, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Window& w, std::int64_t groups) {
  if (x.rank() == 3) {
    return conv1d(x, weight, bias, {.stride = w.strides[0], .dilation = w.dilations[0], .groups = groups});
  }
  if (x.rank() == 5) return convolve_volume(call, x, weight, bias, w, groups);
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
  Window w = read_window(call, x.shape(), kernel);
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

Values plain_convolution(const OpCall& call) {
  return {convolution(call, call.in(0), call.in(1), call.optional(2))};
}

/// One axis of a transposed convolution. All that the filters reach is `full` positions; the result is those
/// from `first` on, `size` of them, the last of which may lie beyond.
struct TransposedAxis {
  std::int64_t stride = 1, dilation = 1, full = 0, first = 0, size = 0;
  bool all_computed = false;  ///< the op leaves nothing out

  // What the op is to leave out at either end, and to add at its end: what it cannot is cut off, or added,
  // after.
  std::int64_t padding() const { return !all_computed && beyond() < stride ? first : 0; }
  std::int64_t output_padding() const {
    if (all_computed) return 0;
    return std::clamp<std::int64_t>(first + size - (full - padding()), 0, stride - 1);
  }
  std::int64_t computed() const { return full - 2 * padding() + output_padding(); }

 private:
  std::int64_t beyond() const { return first + size - (full - first); }
};

/// All positions that filters of `kernel` reach, one at every stride from each of `size` positions.
std::int64_t reached(std::int64_t size, std::int64_t stride, std::int64_t kernel, std::int64_t dilation) {
  return checked_add(checked_mul(size - 1, stride, "ConvTranspose"),
                     checked_add(checked_mul(kernel - 1, dilation, "ConvTranspose"), 1, "ConvTranspose"),
                     "ConvTranspose");
}

std::vector<TransposedAxis> transposed_axes(const OpCall& call, const Tensor& x, const Tensor& weight) {
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  const std::vector<std::int64_t> strides = read_window_numbers(call, "strides", axes, 1, 1),
                                  dilations = read_window_numbers(call, "dilations", axes, 1, 1),
                                  extra = read_window_numbers(call, "output_padding", axes, 0, 0),
                                  pads = read_window_numbers(call, "pads", 2 * axes, 0, 0),
                                  wanted = call.integers("output_shape");
  INGOT_CHECK(wanted.empty() || wanted.size() >= axes,
              FormatError(call.where(), -1, "output_shape", "has fewer axes than the input"));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  std::vector<TransposedAxis> result;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = x.dim(static_cast<int>(i) + 2), kernel = weight.dim(static_cast<int>(i) + 2);
    TransposedAxis axis{.stride = strides[i],
                        .dilation = dilations[i],
                        .full = reached(size, strides[i], kernel, dilations[i]),
                        .first = pads[i]};
    INGOT_CHECK(extra[i] < std::max(strides[i], dilations[i]),
                FormatError(call.where(), -1, "output_padding",
                            fmt::format("is {}, expected less than the stride {} or the dilation {}",
                                        extra[i], strides[i], dilations[i])));
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

Tensor spread_image(const Tensor& x, const Tensor& weight, const TransposedAxis& row,
                    const TransposedAxis& column, std::int64_t groups) {
  return conv_transpose2d(x, weight, {},
                          {.stride = {row.stride, column.stride},
                           .padding = {row.padding(), column.padding()},
                           .output_padding = {row.output_padding(), column.output_padding()},
                           .dilation = {row.dilation, column.dilation},
                           .groups = groups});
}

/// Three spatial axes: for each slice of the filters along the first of them the images that it spreads to,
/// added where they belong.
Tensor spread_volume(const Tensor& x, const Tensor& weight, const std::vector<TransposedAxis>& axes,
                     std::int64_t groups) {
  const std::int64_t batch = x.dim(0), depth = x.dim(2);
  const Tensor images =
      reshape(contiguous(transpose(x, 1, 2)), {batch * depth, x.dim(1), x.dim(3), x.dim(4)});
  Tensor total;
  for (std::int64_t i = 0; i < weight.dim(2); ++i) {
    const Tensor part = spread_image(images, contiguous(select(weight, 2, i)), axes[1], axes[2], groups);
    const Tensor parts =
        transpose(reshape(part, {batch, depth, part.dim(1), part.dim(2), part.dim(3)}), 1, 2);
    if (!total.defined()) total = Tensor::zeros(parts.shape().with(2, axes[0].full), x.dtype(), x.device());
    const std::int64_t first = i * axes[0].dilation;
    const Tensor positions = slice(total, 2, first, first + (depth - 1) * axes[0].stride + 1, axes[0].stride);
    copy_(positions, add(positions, parts));
  }
  return total;
}

/// One to three spatial axes, without what the attributes cut off or add.
Tensor spread(const OpCall& call, const Tensor& x, const Tensor& weight,
              const std::vector<TransposedAxis>& axes) {
  const std::int64_t groups = call.integer("group", 1);
  if (axes.size() == 3) return spread_volume(x, weight, axes, groups);
  if (axes.size() == 2) return spread_image(x, weight, axes[0], axes[1], groups);
  if (axes.size() != 1) call.refuse("convolution over " + std::to_string(axes.size()) + " axes");
  return conv_transpose1d(x, weight, {},
                          {.stride = axes[0].stride,
                           .padding = axes[0].padding(),
                           .output_padding = axes[0].output_padding(),
                           .dilation = axes[0].dilation,
                           .groups = groups});
}

Values transposed_convolution(const OpCall& call) {
  const Tensor &x = call.in(0), &weight = call.in(1);
  INGOT_CHECK(x.rank() == weight.rank() && x.rank() > 2,
              DimensionMismatch(call.where() + ": ranks of x and weight"));
  std::vector<TransposedAxis> axes = transposed_axes(call, x, weight);
  axes[0].all_computed = axes.size() == 3;
  const Tensor y = fitted(spread(call, x, weight, axes), axes);
  if (!call.has(2)) return {y};
  Tensor bias = call.in(2);
  for (std::size_t i = 0; i < axes.size(); ++i) bias = unsqueeze(bias, bias.rank());
  return {add(y, bias)};
}

/// By the batch itself: with the running mean and variance that follow, which are those of the batch,
/// weighted by 1 - momentum.
Values train_batch_norm(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  Axes axes{0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const double momentum = call.number("momentum", 0.9F);
  const Tensor mean_now = mean(x, axes), var_now = var(x, axes, 0);
  const auto running = [&](std::size_t i, const Tensor& now) {
    return to(add(scale(to(call.in(i), now.dtype()), momentum), scale(now, 1 - momentum)),
              call.in(i).dtype());
  };
  return {batch_norm(x, call.in(1), call.in(2), mean_now, var_now,
                     {.training = false, .eps = call.number("epsilon", 1e-5F)}),
          running(3, mean_now), running(4, var_now)};
}

Values batch_normalization(const OpCall& call) {
  if (call.integer("training_mode", 0) != 0) return train_batch_norm(call);
  return {batch_norm(call.in(0), call.in(1), call.in(2), call.in(3), call.in(4),
                     {.training = false, .eps = call.number("epsilon", 1e-5F)})};
}

Values layer_normalization(const OpCall& call) {
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
  Values outputs{
      reshape(layer_norm(flat, flat_weight(call.in(1)), flat_weight(call.optional(2)), eps), x.shape())};
  if (call.output_count() > 1) {
    Shape shape = x.shape();
    for (int i = axis; i < x.rank(); ++i) shape[i] = 1;
    outputs.emplace_back(reshape(mean(flat, {-1}), shape));
    outputs.emplace_back(reshape(rsqrt(var(flat, {-1}, 0) + eps), shape));
  }
  return outputs;
}

Values rms_normalization(const OpCall& call) {
  const Tensor& x = call.in(0);
  const int axis = call.axis("axis", -1, x.rank());
  const float eps = call.number("epsilon", 1e-5F);
  if (axis == x.rank() - 1) return {rms_norm(x, call.in(1), eps)};
  std::int64_t width = 1;
  for (int i = axis; i < x.rank(); ++i) width *= x.dim(i);
  const Shape normalized(x.dims().subspan(static_cast<std::size_t>(axis)));
  const Tensor weight = contiguous(reshape(broadcast_to(call.in(1), normalized), {width}));
  const std::int64_t rows = width == 0 ? 0 : x.numel() / width;
  return {reshape(rms_norm(reshape(x, {rows, width}), weight, eps), x.shape())};
}

Values instance_normalization(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  return {group_norm(x, call.in(1), call.in(2), {.groups = x.dim(1), .eps = call.number("epsilon", 1e-5F)})};
}

Values group_normalization(const OpCall& call) {
  if (call.opset() < 21) call.refuse("weights for each group (before operator set 21)");
  return {group_norm(call.in(0), call.in(1), call.in(2),
                     {.groups = call.integer("num_groups", 1), .eps = call.number("epsilon", 1e-5F)})};
}

/// x / (bias + alpha / size · Σ x² over `size` channels around)^beta (Krizhevsky et al. 2012).
Values local_response_norm(const OpCall& call) {
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

Values mean_variance_norm(const OpCall& call) {
  const Tensor& x = call.in(0);
  const Axes axes = call.axes_of(call.integers("axes", {0, 2, 3}), x.rank());
  return {div(sub(x, mean(x, axes, true)), sqrt(var(x, axes, 0, true)) + 1e-9)};
}

/// Zero where all of an axis is.
Values lp_normalization(const OpCall& call) {
  const Tensor& x = call.in(0);
  const std::int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2) call.refuse("p = " + std::to_string(p));
  const Axes axes{call.axis("axis", -1, x.rank())};
  const Tensor norm = p == 1 ? sum(abs(x), axes, true) : sqrt(sum(square(x), axes, true));
  const Tensor zero = to(Tensor::scalar(0), x.dtype());
  return {where(equal(norm, zero), zero, div(x, norm))};
}

constexpr std::array kLayerOps = {OpRow{"BatchNormalization", batch_normalization, kEveryInput},
                                  OpRow{"Conv", plain_convolution, kEveryInput},
                                  OpRow{"ConvTranspose", transposed_convolution, kEveryInput},
                                  OpRow{"GroupNormalization", group_normalization, kEveryInput},
                                  OpRow{"InstanceNormalization", instance_normalization, kEveryInput},
                                  OpRow{"LRN", local_response_norm, kEveryInput},
                                  OpRow{"LpNormalization", lp_normalization},
                                  OpRow{"LayerNormalization", layer_normalization, kEveryInput},
                                  OpRow{"MeanVarianceNormalization", mean_variance_norm, kEveryInput},
                                  OpRow{"RMSNormalization", rms_normalization, kEveryInput}};

}  // namespace

std::span<const OpRow> layer_ops() { return kLayerOps; }

}  // namespace ingot::onnx
