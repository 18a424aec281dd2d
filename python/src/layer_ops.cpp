// Norms, attention, convolutions, pooling, rotary positions and losses, with PyTorch's names where it has
// them.
#include <algorithm>
#include <variant>

#include "bindings.h"
#include <nanobind/stl/variant.h>

#include "ingot/base/error.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/batch_norm.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/group_norm.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/pool.h"
#include "ingot/ops/random.h"
#include "ingot/ops/rope.h"

namespace ingot::python {
namespace {

using Pair = std::array<std::int64_t, 2>;
/// One number for both axes, or (height, width).
using OneOrPair = std::variant<std::int64_t, Pair>;

Pair pair_of(const OneOrPair& value) {
  if (const auto* one = std::get_if<std::int64_t>(&value)) return {*one, *one};
  return std::get<Pair>(value);
}

Reduction reduction_of(const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  throw InvalidConfig("reduction", "'" + name + "' is none of mean, sum, none");
}

void bind_norms(nb::module_& m) {
  m.def(
      "rms_norm", [](const Tensor& x, const Tensor& weight, float eps) { return rms_norm(x, weight, eps); },
      "x"_a, "weight"_a, "eps"_a = 1e-5F, ReleaseGil(),
      "x / sqrt(mean(x²) + eps) · weight over the last axis. weight: [d].");
  m.def(
      "layer_norm",
      [](const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, float eps) {
        return layer_norm(x, or_undefined(weight), or_undefined(bias), eps);
      },
      "x"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5F, ReleaseGil(),
      "(x - mean) / sqrt(variance + eps) · weight + bias over the last axis. weight, bias: [d].");
  m.def(
      "group_norm",
      [](const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, float eps) {
        return group_norm(x, weight, bias, {.groups = groups, .eps = eps});
      },
      "x"_a, "num_groups"_a, "weight"_a, "bias"_a, "eps"_a = 1e-5F, ReleaseGil(),
      "Normalized over groups of channels. x: [batch, channels, ...]; weight, bias: [channels].");
  m.def(
      "batch_norm",
      [](const Tensor& x, const OptionalTensor& mean, const OptionalTensor& variance,
         const OptionalTensor& weight, const OptionalTensor& bias, bool training, double momentum,
         float eps) {
        return batch_norm(x, or_undefined(weight), or_undefined(bias), or_undefined(mean),
                          or_undefined(variance), {.training = training, .momentum = momentum, .eps = eps});
      },
      "x"_a, "running_mean"_a = nb::none(), "running_var"_a = nb::none(), "weight"_a = nb::none(),
      "bias"_a = nb::none(), "training"_a = false, "momentum"_a = 0.1, "eps"_a = 1e-5F, ReleaseGil(),
      "Normalized over all but the channels, by the running values or, in training, the batch's, which they "
      "follow then. x: "
      "[batch, channels, ...]; the others: [channels].");
  const auto sum_and_normed = [](const NormedSum& made) { return std::pair(made.sum, made.normed); };
  m.def(
      "add_rms_norm",
      [sum_and_normed](const Tensor& x, const Tensor& residual, const Tensor& weight, float eps) {
        return sum_and_normed(add_rms_norm(x, residual, weight, eps));
      },
      "x"_a, "residual"_a, "weight"_a, "eps"_a = 1e-5F, ReleaseGil(),
      "(x + residual, rms_norm of it) in one pass. x, residual: [..., d]; weight: [d].");
  m.def(
      "add_layer_norm",
      [sum_and_normed](const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                       float eps) { return sum_and_normed(add_layer_norm(x, residual, weight, bias, eps)); },
      "x"_a, "residual"_a, "weight"_a, "bias"_a, "eps"_a = 1e-5F, ReleaseGil(),
      "(x + residual, layer_norm of it) in one pass. x, residual: [..., d]; weight, bias: [d].");
}

void bind_attention(nb::module_& m) {
  m.def(
      "scaled_dot_product_attention",
      [](const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal, float scale, std::int64_t window,
         float softcap) {
        return attention(q, k, v,
                         {.causal = is_causal, .scale = scale, .window = window, .softcap = softcap});
      },
      "q"_a, "k"_a, "v"_a, "is_causal"_a = false, "scale"_a = 0.0F, "window"_a = 0, "softcap"_a = 0.0F,
      ReleaseGil(),
      "softmax(scale · q kᵀ) v with grouped heads. q: [B, S, Hq, D]; k, v: [B, T, Hkv, D] (positions before "
      "heads, unlike\n"
      "PyTorch's). scale 0: 1/√D. Never holds S × T scores.");
  m.def(
      "rope_table",
      [](std::int64_t rotary_size, std::int64_t positions, double theta, const std::string& device) {
        const RopeTable table =
            rope_table(rope_frequencies(rotary_size, theta), positions, 1.0F, to_device(device));
        return std::pair(table.cos, table.sin);
      },
      "rotary_size"_a, "positions"_a, "theta"_a = 10000.0, "device"_a = "cpu", ReleaseGil(),
      "(cosines, sines) of rotary positions, float32 [positions, rotary_size / 2] each, for ``rope``.");
  m.def(
      "rope",
      [](const Tensor& x, const Tensor& cosines, const Tensor& sines, const OptionalTensor& positions,
         std::int64_t offset, bool interleaved) {
        return rope(x, {cosines, sines},
                    {.interleaved = interleaved, .offset = offset, .positions = or_undefined(positions)});
      },
      "x"_a, "cos"_a, "sin"_a, "positions"_a = nb::none(), "offset"_a = 0, "interleaved"_a = false,
      ReleaseGil(),
      "x [B, S, H, D] with rotary position embedding; the first rotary_size elements of each head rotate. "
      "positions: int64 or int32, [S] or [B, S]; without them offset, offset + 1, ... Pairs are (i, i + "
      "rotary_size / 2), interleaved (2i, 2i + 1).");
  m.def("dropout", static_cast<Tensor (*)(const Tensor&, double)>(dropout), "x"_a, "p"_a = 0.5, ReleaseGil(),
        "Each element 0 with probability p, the others divided by 1 - p; see ``manual_seed``.");
}

void bind_convolutions(nb::module_& m) {
  m.def(
      "conv1d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, std::int64_t stride,
         std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
        return conv1d(x, weight, or_undefined(bias),
                      {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
      "groups"_a = 1, ReleaseGil(),
      "x: [batch, channels, length]; weight: [out, channels / groups, kernel]; bias: [out] -> [batch, out, "
      "length'].");
  m.def(
      "conv2d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const OneOrPair& stride,
         const OneOrPair& padding, const OneOrPair& dilation, std::int64_t groups) {
        return conv2d(x, weight, or_undefined(bias),
                      {.stride = pair_of(stride),
                       .padding = pair_of(padding),
                       .dilation = pair_of(dilation),
                       .groups = groups});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
      "groups"_a = 1, ReleaseGil(),
      "x: [batch, channels, height, width]; weight: [out, channels / groups, kernel, kernel]; bias: [out] -> "
      "[batch, out, height', width']. Sizes are one number or (height, width).");
  m.def(
      "conv_transpose1d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, std::int64_t stride,
         std::int64_t padding, std::int64_t output_padding, std::int64_t groups, std::int64_t dilation) {
        return conv_transpose1d(x, weight, or_undefined(bias),
                                {.stride = stride,
                                 .padding = padding,
                                 .output_padding = output_padding,
                                 .dilation = dilation,
                                 .groups = groups});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
      "groups"_a = 1, "dilation"_a = 1, ReleaseGil(),
      "The transposed convolution: x: [batch, channels, length]; weight: [channels, out / groups, kernel]; "
      "bias: [out].");
  m.def(
      "conv_transpose2d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const OneOrPair& stride,
         const OneOrPair& padding, const OneOrPair& output_padding, std::int64_t groups,
         const OneOrPair& dilation) {
        return conv_transpose2d(x, weight, or_undefined(bias),
                                {.stride = pair_of(stride),
                                 .padding = pair_of(padding),
                                 .output_padding = pair_of(output_padding),
                                 .dilation = pair_of(dilation),
                                 .groups = groups});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
      "groups"_a = 1, "dilation"_a = 1, ReleaseGil(),
      "The transposed convolution of images: x: [batch, channels, height, width]; weight: [channels, out / "
      "groups, kernel, kernel]; bias: [out].");
}

void bind_pooling(nb::module_& m) {
  m.def(
      "max_pool1d",
      [](const Tensor& x, std::int64_t window, std::optional<std::int64_t> stride, std::int64_t padding,
         std::int64_t dilation, bool ceil) {
        return max_pool1d(x, {.window = window,
                              .stride = stride.value_or(0),
                              .padding = padding,
                              .dilation = dilation,
                              .ceil = ceil});
      },
      "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
      "ceil_mode"_a = false, ReleaseGil(),
      "The largest of each window of x [batch, channels, length]; without a stride windows do not overlap.");
  m.def(
      "avg_pool1d",
      [](const Tensor& x, std::int64_t window, std::optional<std::int64_t> stride, std::int64_t padding,
         bool ceil, bool count_padding) {
        return avg_pool1d(x, {.window = window,
                              .stride = stride.value_or(0),
                              .padding = padding,
                              .count_padding = count_padding,
                              .ceil = ceil});
      },
      "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, ReleaseGil(),
      "The mean of each window of x [batch, channels, length]; without a stride windows do not overlap.");
  const auto stride_of = [](const std::optional<OneOrPair>& stride) {
    return stride ? pair_of(*stride) : Pair{0, 0};
  };
  m.def(
      "max_pool2d",
      [stride_of](const Tensor& x, const OneOrPair& window, const std::optional<OneOrPair>& stride,
                  const OneOrPair& padding, const OneOrPair& dilation, bool ceil) {
        return max_pool2d(x, {.window = pair_of(window),
                              .stride = stride_of(stride),
                              .padding = pair_of(padding),
                              .dilation = pair_of(dilation),
                              .ceil = ceil});
      },
      "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
      "ceil_mode"_a = false, ReleaseGil(),
      "The largest of each window of x [batch, channels, height, width]. Sizes are one number or (height, "
      "width); without a stride windows do not overlap.");
  m.def(
      "avg_pool2d",
      [stride_of](const Tensor& x, const OneOrPair& window, const std::optional<OneOrPair>& stride,
                  const OneOrPair& padding, bool ceil, bool count_padding) {
        return avg_pool2d(x, {.window = pair_of(window),
                              .stride = stride_of(stride),
                              .padding = pair_of(padding),
                              .count_padding = count_padding,
                              .ceil = ceil});
      },
      "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, ReleaseGil(),
      "The mean of each window of x [batch, channels, height, width]. Sizes are one number or (height, "
      "width); without a stride windows do not overlap.");
  m.def(
      "adaptive_avg_pool1d", [](const Tensor& x, std::int64_t size) { return adaptive_avg_pool1d(x, size); },
      "x"_a, "output_size"_a, ReleaseGil(),
      "Means of ``output_size`` windows that cover x [batch, channels, length] evenly.");
  m.def(
      "adaptive_avg_pool2d",
      [](const Tensor& x, const OneOrPair& size) { return adaptive_avg_pool2d(x, pair_of(size)); }, "x"_a,
      "output_size"_a, ReleaseGil(),
      "Means of windows that cover x [batch, channels, height, width] evenly; output_size: one number or "
      "(height, width).");
}

void bind_losses(nb::module_& m) {
  m.def(
      "cross_entropy",
      [](const Tensor& logits, const Tensor& targets, std::int64_t ignore_index, float label_smoothing,
         const std::string& reduction) {
        return cross_entropy(logits, targets,
                             {.ignore_index = ignore_index,
                              .label_smoothing = label_smoothing,
                              .reduction = reduction_of(reduction)});
      },
      "logits"_a, "targets"_a, "ignore_index"_a = -100, "label_smoothing"_a = 0.0F, "reduction"_a = "mean",
      ReleaseGil(), "−log softmax(logits)[target]. logits: [..., classes]; targets: int64 or int32 [...].");
  const auto pair = [](auto op) {
    return [op](const Tensor& input, const Tensor& target, const std::string& reduction) {
      return op(input, target, reduction_of(reduction));
    };
  };
  m.def("mse_loss", pair(mse_loss), "input"_a, "target"_a, "reduction"_a = "mean", ReleaseGil(),
        "Squared differences of equal shapes: their mean, sum, or (none) each.");
  m.def("l1_loss", pair(l1_loss), "input"_a, "target"_a, "reduction"_a = "mean", ReleaseGil(),
        "Absolute differences of equal shapes: their mean, sum, or (none) each.");
  m.def("binary_cross_entropy_with_logits", pair(bce_with_logits_loss), "input"_a, "target"_a,
        "reduction"_a = "mean", ReleaseGil(),
        "-(t log σ(x) + (1 - t) log(1 - σ(x))) of logits and targets from 0 to 1, of equal shapes.");
  m.def(
      "huber_loss",
      [](const Tensor& input, const Tensor& target, const std::string& reduction, float delta) {
        return huber_loss(input, target, delta, reduction_of(reduction));
      },
      "input"_a, "target"_a, "reduction"_a = "mean", "delta"_a = 1.0F, ReleaseGil(),
      "Half the squared difference up to ``delta``, beyond it ``delta`` · (|difference| - delta / 2).");
  m.def("binary_cross_entropy", pair(bce_loss), "input"_a, "target"_a, "reduction"_a = "mean", ReleaseGil(),
        "-(t log p + (1 - t) log(1 - p)) of probabilities and targets from 0 to 1, of equal shapes.");
  m.def(
      "linear_cross_entropy",
      [](const Tensor& x, const Tensor& weight, const Tensor& targets, std::int64_t ignore_index,
         float label_smoothing, const std::string& reduction) {
        LinearCrossEntropyLoss options;
        options.ignore_index = ignore_index;
        options.label_smoothing = label_smoothing;
        options.reduction = reduction_of(reduction);
        return linear_cross_entropy(x, weight, targets, options);
      },
      "x"_a, "weight"_a, "targets"_a, "ignore_index"_a = -100, "label_smoothing"_a = 0.0F,
      "reduction"_a = "mean", ReleaseGil(),
      "``cross_entropy(linear(x, weight), targets)`` in chunks, so that all logits never exist at once. x: "
      "[..., in]; weight: [classes, in]; targets: int64 or int32 [...]; reduction: mean or sum.");
}

}  // namespace

void bind_layer_ops(nb::module_& module) {
  bind_norms(module);
  bind_attention(module);
  bind_convolutions(module);
  bind_pooling(module);
  bind_losses(module);
}

}  // namespace ingot::python
