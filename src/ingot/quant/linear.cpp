#include "ingot/quant/linear.h"

#include <algorithm>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/weight_only.h"

namespace ingot::quant {
namespace {

constexpr std::int64_t kMostStepBlocks = 8;  // of any layout: rounding up to it serves all formats

// [..., n] as [rows, n]; x is contiguous.
View as_matrix(const Tensor& x) {
  return contiguous_view(x.view().data, {x.view().rows(), x.dim(-1)}, x.dtype(), x.device());
}

// The weights that share an input (Q, K and V) have equal orders, each in a tensor of its own.
bool same_order(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || a.storage() == b.storage() ||
         (a.numel() == b.numel() &&
          std::equal(a.data<std::int64_t>(), a.data<std::int64_t>() + a.numel(), b.data<std::int64_t>()));
}

Tensor reordered(const Tensor& x, const Tensor& order) {
  Tensor y = Tensor::empty(x.shape());
  const std::int64_t rows = x.view().rows(), cols = x.dim(-1);
  const auto* from = order.data<std::int64_t>();
  parallel_for(rows, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * cols; i < end * cols; i += cols)
      for (std::int64_t c = 0; c < cols; ++c) y.data<float>()[i + c] = x.data<float>()[i + from[c]];
  });
  return y;
}

}  // namespace

const Tensor& Activations::rounded(std::int64_t blocks, const Tensor& order) const {
  if (rounded_.defined() && rounded_.dim(1) >= blocks * 64 && same_order(order, order_)) return rounded_;
  order_ = order;
  const std::int64_t needed =
      std::max(blocks, (x_.dim(-1) + kernels::kPackedBlock - 1) / kernels::kPackedBlock);
  const std::int64_t whole = (needed + kMostStepBlocks - 1) / kMostStepBlocks * kMostStepBlocks;
  // One line more, for an odd number: the rows that a kernel reads side by side then fall into different sets
  // of L1.
  rounded_ = Tensor::empty({x_.view().rows(), (whole + 1) * 64}, DType::u8);
  kernels::launch(kernels::quantize_activations, current_stream(kCpu),
                  {.x = as_matrix(order.defined() ? reordered(x_, order) : x_), .y = rounded_.view()});
  return rounded_;
}

const Tensor& Activations::rounded_rows() const {
  if (rounded_rows_.defined()) return rounded_rows_;
  constexpr std::int64_t kStep = kernels::packed_layout(kernels::PackedFormat::w8a8).step_cols();
  constexpr auto kHeader = static_cast<std::int64_t>(sizeof(kernels::ActivationRow));
  const std::int64_t codes = (x_.dim(-1) + kStep - 1) / kStep * kStep;
  rounded_rows_ = Tensor::empty({x_.view().rows(), kHeader + codes}, DType::u8);
  kernels::launch(kernels::quantize_rows, current_stream(kCpu),
                  {.x = as_matrix(x_), .y = rounded_rows_.view()});
  return rounded_rows_;
}

Tensor linear(const Activations& x, const PackedMatrix& weight, const Tensor& bias) {
  INGOT_CHECK(x.x().defined() && x.x().rank() >= 1 && x.x().dtype() == DType::f32 && x.x().is_contiguous(),
              DimensionMismatch("a product with a quantised weight takes a contiguous f32 tensor [..., in]"));
  INGOT_CHECK(x.x().dim(-1) == weight.cols,
              ShapeMismatch("quantised linear (weight)", {-1, x.x().dim(-1)}, {weight.rows, weight.cols},
                            "the weight is [out, in]"));
  INGOT_CHECK(!bias.defined() || (bias.shape() == Shape({weight.rows}) && bias.dtype() == DType::f32),
              ShapeMismatch("quantised linear (bias, f32)", {weight.rows},
                            bias.defined() ? bias.shape().to_vector() : std::vector<std::int64_t>{}));
  Tensor y = Tensor::empty(x.x().shape().with(-1, weight.rows));
  if (y.numel() == 0) return y;
  const View bias_view = bias.defined() ? bias.view() : View{};
  if (kernels::is_weight_only(weight.format)) {
    kernels::launch(kernels::weight_only_matmul, current_stream(kCpu),
                    {.format = weight.format,
                     .x = as_matrix(x.x()),
                     .weight = weight.data.view(),
                     .y = as_matrix(y),
                     .bias = bias_view});
    return y;
  }
  if (kernels::is_row_scaled(weight.format)) {
    kernels::launch(
        kernels::row_scaled_matmul, current_stream(kCpu),
        {.x = x.rounded_rows().view(), .weight = weight.data.view(), .y = as_matrix(y), .bias = bias_view});
    return y;
  }
  const kernels::PackedLayout layout = kernels::packed_layout(weight.format);
  const Tensor& rounded = x.rounded(layout.steps(weight.cols) * layout.step_blocks, weight.order);
  kernels::launch(kernels::quantized_matmul, current_stream(kCpu),
                  {.format = weight.format,
                   .x = rounded.view(),
                   .weight = weight.data.view(),
                   .y = as_matrix(y),
                   .bias = bias_view});
  return y;
}

Tensor linear(const Tensor& x, const PackedMatrix& weight, const Tensor& bias) {
  return linear(Activations(x), weight, bias);
}

}  // namespace ingot::quant
