#include "ingot/quant/ternary.h"

#include <algorithm>

#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/reduce_axes.h"

namespace ingot::quant {

Tensor ternary_scale(const Tensor& values) {
  const Stream stream = current_stream(values.device());
  const Tensor magnitudes = Tensor::empty({values.numel()}, DType::f32, values.device());
  const View flat = contiguous_view(values.view().data, {values.numel()}, DType::f32, values.device());
  kernels::launch(kernels::unary, stream, {.x = flat, .y = magnitudes.view(), .op = kernels::UnaryOp::abs});
  const Tensor scale = Tensor::empty({1}, DType::f32, values.device());
  const Tensor rounded = Tensor::empty({1}, DType::f16, values.device());
  View mean = scale.view();
  mean.shape[0] = values.numel();
  mean.strides[0] = 0;
  const std::int64_t parts = kernels::reduce_partials(magnitudes.view(), mean);
  const Tensor partials = parts > 0 ? Tensor::empty({parts}, DType::f64, values.device()) : Tensor{};
  kernels::launch(kernels::reduce, stream,
                  {.x = magnitudes.view(),
                   .y = mean,
                   .partials = partials.view(),
                   .scale = 1 / static_cast<double>(std::max<std::int64_t>(values.numel(), 1))});
  kernels::launch(kernels::copy, stream, {.x = scale.view(), .y = rounded.view()});
  kernels::launch(kernels::copy, stream, {.x = rounded.view(), .y = scale.view()});
  return scale;
}

}  // namespace ingot::quant
