#include "ingot/quant/floats.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/stream.h"
#include "ingot/kernels/copy.h"

namespace ingot::quant {

Tensor as_floats(const Tensor& w, std::string_view name) {
  INGOT_CHECK(
      w.defined() && w.rank() == 2,
      DimensionMismatch(fmt::format("{}: a weight to quantize must be a matrix [rows, cols], got shape {}",
                                    name, w.defined() ? to_string(w.shape()) : "none")));
  INGOT_CHECK(is_training_dtype(w.dtype()),
              KernelError("quantize", fmt::format("{} is {}; a weight to quantize must be f32, bf16 or f16",
                                                  name, ingot::name(w.dtype()))));
  if (w.dtype() == DType::f32 && w.is_contiguous()) return w.detach();
  Tensor y = Tensor::empty(w.shape());
  kernels::launch(kernels::copy, current_stream(w.device()), {.x = w.view(), .y = y.view()});
  return y;
}

}  // namespace ingot::quant
