#include "ingot/ops/blocked_conv.h"

#include <algorithm>
#include <span>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/kernels/blocked_conv.h"
#include "ingot/kernels/quantized_conv.h"
#include "ingot/kernels/winograd_conv.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

/// Zeros behind axis 1 until its size is a multiple of `block`.
Tensor filled_up(const Tensor& x, std::int64_t block) {
  const std::int64_t rest = x.dim(1) % block;
  if (rest == 0) return x;
  return concat(std::vector<Tensor>{x, Tensor::zeros(x.shape().with(1, block - rest), x.dtype())}, 1);
}

std::int64_t blocked_output(std::int64_t size, std::int64_t kernel, const BlockedConvOptions& o,
                            std::size_t i) {
  constexpr const char* kOp = "blocked_conv2d";
  const std::int64_t reach = checked_add(checked_mul(kernel - 1, o.dilation[i], kOp), 1, kOp),
                     padded = checked_add(checked_add(size, o.padding[i], kOp), o.padding_end[i], kOp);
  INGOT_CHECK(padded >= reach,
              DimensionMismatch("blocked_conv2d: a kernel that reaches over " + std::to_string(reach) +
                                " positions for a padded input of " + std::to_string(padded)));
  return (padded - reach) / o.stride[i] + 1;
}

}  // namespace

std::int64_t channel_block() { return kernels::channel_block(); }
bool takes_plain_image(std::int64_t channels) { return channels == 3; }

Tensor to_channel_blocks(const Tensor& x) {
  INGOT_CHECK(x.rank() == 4, DimensionMismatch("to_channel_blocks: " + to_string(x.shape()) +
                                               " is not an image [N, C, H, W]"));
  const std::int64_t b = channel_block(), positions = x.dim(2) * x.dim(3);
  const Tensor full = contiguous(filled_up(x, b));
  const std::int64_t blocks = full.dim(1) / b;
  // Each block is a matrix that is transposed.
  return reshape(contiguous(transpose(reshape(full, {x.dim(0) * blocks, b, positions}), 1, 2)),
                 {x.dim(0), blocks, x.dim(2), x.dim(3), b});
}

Tensor from_channel_blocks(const Tensor& x, std::int64_t channels) {
  INGOT_CHECK(x.rank() == 5 && channels <= x.dim(1) * x.dim(4),
              DimensionMismatch("from_channel_blocks: " + to_string(x.shape()) + " for " +
                                std::to_string(channels) + " channels"));
  const Tensor blocks = reshape(contiguous(x), {x.dim(0) * x.dim(1), x.dim(2) * x.dim(3), x.dim(4)});
  const Tensor full =
      reshape(contiguous(transpose(blocks, 1, 2)), {x.dim(0), x.dim(1) * x.dim(4), x.dim(2), x.dim(3)});
  return channels == full.dim(1) ? full : contiguous(narrow(full, 1, 0, channels));
}

Tensor prepack_conv2d_weight(const Tensor& weight) {
  const std::int64_t b = channel_block(), o = weight.dim(0), kh = weight.dim(2), kw = weight.dim(3);
  if (takes_plain_image(weight.dim(1)))
    return contiguous(
        permute(reshape(contiguous(weight), {o / b, b, weight.dim(1), kh, kw}), {0, 3, 4, 2, 1}));
  const Tensor full = contiguous(filled_up(weight, b));
  return contiguous(permute(reshape(full, {o / b, b, full.dim(1) / b, b, kh, kw}), {0, 2, 4, 5, 3, 1}));
}

bool takes_winograd(std::int64_t inputs, std::int64_t outputs) {
  constexpr std::int64_t kFew = 64, kMany = std::int64_t{1} << 16;
  const std::int64_t b = channel_block();
  return inputs % b == 0 && outputs % b == 0 && inputs >= kFew && outputs >= kFew &&
         inputs * outputs <= kMany;
}

Tensor prepack_winograd_weight(const Tensor& given) {
  static constexpr double kFilter[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};  // G
  const Tensor weight = contiguous(given);
  const std::int64_t outputs = weight.dim(0), inputs = weight.dim(1);
  const Tensor packed = Tensor::empty({kernels::kWinogradPositions, inputs, outputs}, DType::f32);
  for (std::int64_t pair = 0; pair < outputs * inputs; ++pair) {
    const float* w = weight.data<float>() + 9 * pair;
    float* to = packed.data<float>() + pair % inputs * outputs + pair / inputs;
    for (std::int64_t p = 0; p < kernels::kWinogradPositions; ++p) {
      double sum = 0;
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) sum += kFilter[p / 4][i] * kFilter[p % 4][j] * double{w[3 * i + j]};
      }
      to[p * inputs * outputs] = static_cast<float>(sum);
    }
  }
  return packed;
}

namespace {

Shape winograd_shape(const Tensor& x, const Tensor& weight, const BlockedConvOptions& options) {
  constexpr std::array<std::int64_t, 2> kOne{1, 1};
  INGOT_CHECK(x.rank() == 5 && x.dim(1) * x.dim(4) == weight.dim(1) && weight.dim(2) % x.dim(4) == 0 &&
                  options.stride == kOne && options.dilation == kOne,
              DimensionMismatch("blocked_conv2d: input " + to_string(x.shape()) + " and transformed weight " +
                                to_string(weight.shape())));
  return {x.dim(0), weight.dim(2) / x.dim(4), blocked_output(x.dim(2), 3, options, 0),
          blocked_output(x.dim(3), 3, options, 1), x.dim(4)};
}

}  // namespace

Shape blocked_conv2d_shape(const Tensor& x, const Tensor& weight, const BlockedConvOptions& options) {
  if (weight.rank() == 3) return winograd_shape(x, weight, options);
  const bool plain = x.rank() == 4;
  INGOT_CHECK(x.rank() == (plain ? 4 : 5) && weight.rank() == (plain ? 5 : 6) &&
                  x.dim(1) == weight.dim(plain ? 3 : 1) && (plain || x.dim(4) == weight.dim(4)),
              DimensionMismatch("blocked_conv2d: input " + to_string(x.shape()) + " and prepacked weight " +
                                to_string(weight.shape())));
  return {x.dim(0), weight.dim(0), blocked_output(x.dim(2), weight.dim(plain ? 1 : 2), options, 0),
          blocked_output(x.dim(3), weight.dim(plain ? 2 : 3), options, 1), weight.dim(-1)};
}

Tensor blocked_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                      const BlockedConvOptions& options) {
  const OpScope scope("blocked_conv2d", {&input, &weight});
  const Shape shape = blocked_conv2d_shape(input, weight, options);
  const std::int64_t outputs = shape[1] * shape[4];
  INGOT_CHECK(!bias.defined() || bias.shape() == Shape({outputs}),
              ShapeMismatch("blocked_conv2d (bias)", {outputs}, bias.shape().to_vector()));
  INGOT_CHECK(!residual.defined() || residual.shape() == shape,
              ShapeMismatch("blocked_conv2d (residual)", shape.to_vector(), residual.shape().to_vector()));
  for (const Tensor* more : {&bias, &residual}) {
    INGOT_CHECK(
        !more->defined() || more->dtype() == DType::f32,
        KernelError("blocked_conv2d", "bias and residual are f32, got " + std::string(name(more->dtype()))));
  }
  const Tensor x = contiguous(input), offsets = bias.defined() ? contiguous(bias) : bias,
               before = residual.defined() ? contiguous(residual) : residual;
  const Tensor y = options.over_residual && before.defined() ? before : Tensor::empty(shape, DType::f32);
  if (weight.rank() == 3) {
    kernels::WinogradConvArgs args{.x = x.view(),
                                   .weight = weight.view(),
                                   .bias = offsets.view(),
                                   .residual = before.view(),
                                   .y = y.view(),
                                   .padding = options.padding,
                                   .relu = options.relu};
    const Tensor scratch = Tensor::empty(
        {kernels::winograd_scratch(kernels::winograd_tiles(args), weight.dim(1), weight.dim(2))}, DType::f32);
    args.scratch = scratch.view();
    kernels::launch(kernels::winograd_conv, current_stream(x.device()), args);
    return y;
  }
  kernels::launch(
      kernels::blocked_conv, current_stream(x.device()),
      {.x = x.view(),
       .weight = weight.view(),
       .bias = offsets.view(),
       .residual = before.view(),
       .y = y.view(),
       .geometry = {.stride = options.stride, .padding = options.padding, .dilation = options.dilation},
       .relu = options.relu});
  return y;
}

Tensor spread_conv2d_weight(const Tensor& weight) {
  const std::int64_t outputs = weight.dim(1) * weight.dim(2) * weight.dim(3);
  return reshape(contiguous(permute(weight, {2, 3, 1, 0})), {outputs, weight.dim(0), 1, 1});
}

Tensor spread_channel_blocks(const Tensor& x, std::array<std::int64_t, 2> kernel) {
  const auto [rows, columns] = kernel;
  INGOT_CHECK(x.rank() == 5 && x.dim(1) % (rows * columns) == 0,
              DimensionMismatch("spread_channel_blocks: " + to_string(x.shape()) + " for a kernel of " +
                                std::to_string(rows) + " × " + std::to_string(columns)));
  const std::int64_t blocks = x.dim(1) / (rows * columns);
  Tensor y = Tensor::empty({x.dim(0), blocks, checked_mul(x.dim(2), rows, "spread_channel_blocks"),
                            checked_mul(x.dim(3), columns, "spread_channel_blocks"), x.dim(4)},
                           x.dtype());
  for (std::int64_t position = 0; position < rows * columns; ++position) {
    const Tensor row = slice(y, 2, position / columns, kEnd, rows);
    copy_(slice(row, 3, position % columns, kEnd, columns), narrow(x, 1, position * blocks, blocks));
  }
  return y;
}

bool takes_quantized_depth(std::int64_t depth) { return depth <= kernels::kMostQuantizedDepth; }

namespace {

/// weight: [O, C, KH, KW], centred, as [O / 2b rounded up, KH, KW, C / in_group, 2b · in_group].
template <class To>
void pack_codes(const Tensor& weight, std::int64_t in_group, To* to) {
  const std::int64_t c = weight.dim(1), taps = weight.dim(2) * weight.dim(3), panel = 2 * channel_block(),
                     groups = (c + in_group - 1) / in_group;
  const auto* from = weight.data<std::int32_t>();
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    const std::int64_t tap = i % taps, channel = i / taps % c, output = i / taps / c;
    const std::int64_t at =
        ((output / panel * taps + tap) * groups + channel / in_group) * panel + output % panel;
    to[in_group * at + channel % in_group] = static_cast<To>(from[i]);
  }
}

}  // namespace

Tensor prepack_quantized_conv2d_weight(const Tensor& given, const Tensor& zero) {
  Tensor weight = to(contiguous(given), DType::i32);
  if (zero.defined()) weight = sub(weight, reshape(to(zero, DType::i32), {zero.numel(), 1, 1, 1}));
  const std::int64_t panel = 2 * channel_block(), panels = (weight.dim(0) + panel - 1) / panel;
  const auto packed_shape = [&](std::int64_t in_group, std::int64_t elements) {
    const std::int64_t groups = (weight.dim(1) + in_group - 1) / in_group;
    return Shape{panels, weight.dim(2), weight.dim(3), groups, panel * elements};
  };
  weight = contiguous(weight);
  const std::span codes(weight.data<std::int32_t>(), static_cast<std::size_t>(weight.numel()));
  const bool are_bytes = std::ranges::all_of(codes, [](std::int32_t w) { return w >= -128 && w <= 127; });
  if (are_bytes && kernels::multiplies_code_bytes()) {
    Tensor packed = Tensor::zeros(packed_shape(4, 4), DType::i8);
    pack_codes(weight, 4, packed.data<std::int8_t>());
    return packed;
  }
  Tensor packed = Tensor::zeros(packed_shape(2, 1), DType::i32);
  pack_codes(weight, 2, reinterpret_cast<std::int16_t*>(packed.data<std::int32_t>()));
  return packed;
}

Tensor quantized_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& scale,
                        const QuantizedConvOptions& options) {
  constexpr const char* kOp = "quantized_conv2d";
  const OpScope scope(kOp, {&input, &weight, &scale}, false);
  const auto is_code = [](DType dtype) { return dtype == DType::u8 || dtype == DType::i8; };
  INGOT_CHECK(
      is_code(input.dtype()) && is_code(options.codes) &&
          (weight.dtype() == DType::i32 || weight.dtype() == DType::i8),
      KernelError(kOp, "codes are u8 or i8 and the weight is prepacked, got " +
                           std::string(name(input.dtype())) + ", " + std::string(name(options.codes)) +
                           " and " + std::string(name(weight.dtype()))));
  const std::int64_t in_group = weight.dtype() == DType::i8 ? 4 : 2, panel = 2 * channel_block();
  INGOT_CHECK(input.rank() == 5 && weight.rank() == 5 && 2 * input.dim(4) == panel &&
                  weight.dim(4) == (in_group == 4 ? 4 * panel : panel) &&
                  (in_group * weight.dim(3) + input.dim(4) - 1) / input.dim(4) == input.dim(1),
              DimensionMismatch("quantized_conv2d: input " + to_string(input.shape()) +
                                " and prepacked weight " + to_string(weight.shape())));
  const std::int64_t outputs = scale.numel();
  INGOT_CHECK(scale.rank() == 1 && scale.dtype() == DType::f32 && outputs % input.dim(4) == 0 &&
                  (outputs + panel - 1) / panel == weight.dim(0) &&
                  (!bias.defined() || (bias.shape() == scale.shape() && bias.dtype() == DType::i32)),
              ShapeMismatch(kOp, scale.shape().to_vector(),
                            bias.defined() ? bias.shape().to_vector() : std::vector<std::int64_t>{},
                            "scale (f32) and bias (i32) are [O], a multiple of the block"));
  const Tensor x = contiguous(input), offsets = bias.defined() ? contiguous(bias) : bias,
               scales = contiguous(scale);
  Tensor y =
      Tensor::empty({x.dim(0), outputs / x.dim(4), blocked_output(x.dim(2), weight.dim(1), options.conv, 0),
                     blocked_output(x.dim(3), weight.dim(2), options.conv, 1), x.dim(4)},
                    options.codes);
  kernels::launch(kernels::quantized_conv, current_stream(x.device()),
                  {.x = x.view(),
                   .weight = weight.view(),
                   .bias = offsets.view(),
                   .scale = scales.view(),
                   .y = y.view(),
                   .x_zero = options.x_zero,
                   .y_zero = options.y_zero,
                   .geometry = {.stride = options.conv.stride,
                                .padding = options.conv.padding,
                                .dilation = options.conv.dilation}});
  return y;
}

}  // namespace ingot
