#include "ingot/ops/affine_quantize.h"

#include <string>

#include "ingot/base/error.h"
#include "ingot/kernels/affine_quantize.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

// [outer, channels, inner] of a contiguous view; with one scale for all [1, 1, all].
View by_scale(const View& view, int axis, std::int64_t channels) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < view.rank && channels > 1; ++i) {
    if (i < axis) outer *= view.dim(i);
    if (i > axis) inner *= view.dim(i);
  }
  if (channels == 1) inner = view.numel();
  return contiguous_view(view.data, {outer, channels, inner}, view.dtype, view.device);
}

int checked_axis(const char* op, const Tensor& x, const Tensor& scale, const Tensor& zero, DType codes,
                 int axis) {
  check_defined(op, {&x, &scale}, false);
  INGOT_CHECK(codes == DType::u8 || codes == DType::i8,
              KernelError(op, "codes are u8 or i8, got " + std::string(name(codes))));
  INGOT_CHECK(scale.dtype() == DType::f32 && (!zero.defined() || zero.dtype() == codes),
              KernelError(op, "the scale must be f32 and the zero point of the codes' dtype, got " +
                                  std::string(name(scale.dtype())) +
                                  (zero.defined() ? " and " + std::string(name(zero.dtype())) : "")));
  INGOT_CHECK(scale.rank() == 1 && (!zero.defined() || zero.shape() == scale.shape()),
              ShapeMismatch(op, scale.shape().to_vector(),
                            zero.defined() ? zero.shape().to_vector() : std::vector<std::int64_t>{},
                            "scale and zero point are [channels] or [1]"));
  if (scale.dim(0) == 1) return 0;
  const int at = normalize_axis(axis, x.rank(), op);
  INGOT_CHECK(scale.dim(0) == x.dim(at),
              ShapeMismatch(op, x.shape().to_vector(), scale.shape().to_vector(),
                            "a scale for each position of axis " + std::to_string(axis)));
  return at;
}

}  // namespace

Tensor affine_quantize(const Tensor& input, const Tensor& scale, const Tensor& zero, DType codes, int axis) {
  const int at = checked_axis("affine_quantize", input, scale, zero, codes, axis);
  const Tensor x = contiguous(input), scales = contiguous(scale);
  const Tensor zeros = zero.defined() ? contiguous(zero) : zero;
  Tensor q = Tensor::empty(x.shape(), codes, x.device());
  kernels::launch(kernels::affine_quantize, current_stream(x.device()),
                  {.x = by_scale(x.view(), at, scale.dim(0)),
                   .scale = scales.view(),
                   .zero = zeros.view(),
                   .q = by_scale(q.view(), at, scale.dim(0))});
  return q;
}

Tensor affine_dequantize(const Tensor& codes, const Tensor& scale, const Tensor& zero, DType dtype,
                         int axis) {
  const int at = checked_axis("affine_dequantize", codes, scale, zero, codes.dtype(), axis);
  const Tensor q = contiguous(codes), scales = contiguous(scale);
  const Tensor zeros = zero.defined() ? contiguous(zero) : zero;
  Tensor x = Tensor::empty(q.shape(), dtype, q.device());
  kernels::launch(kernels::affine_dequantize, current_stream(q.device()),
                  {.q = by_scale(q.view(), at, scale.dim(0)),
                   .scale = scales.view(),
                   .zero = zeros.view(),
                   .x = by_scale(x.view(), at, scale.dim(0))});
  return x;
}

Tensor affine_add(const Tensor& first, AffineScale a_scale, const Tensor& second, AffineScale b_scale,
                  AffineScale scale, DType codes) {
  check_defined("affine_add", {&first, &second}, false);
  const auto is_code = [](DType dtype) { return dtype == DType::u8 || dtype == DType::i8; };
  INGOT_CHECK(
      is_code(first.dtype()) && is_code(second.dtype()) && is_code(codes),
      KernelError("affine_add", "codes are u8 or i8, got " + std::string(name(first.dtype())) + ", " +
                                    std::string(name(second.dtype())) + " and " + std::string(name(codes))));
  INGOT_CHECK(first.shape() == second.shape(),
              ShapeMismatch("affine_add", first.shape().to_vector(), second.shape().to_vector()));
  const Tensor a = contiguous(first), b = contiguous(second);
  Tensor y = Tensor::empty(a.shape(), codes, a.device());
  kernels::launch(kernels::affine_add, current_stream(a.device()),
                  {.a = {a.view(), a_scale.scale, a_scale.zero},
                   .b = {b.view(), b_scale.scale, b_scale.zero},
                   .y = {y.view(), scale.scale, scale.zero}});
  return y;
}

}  // namespace ingot
