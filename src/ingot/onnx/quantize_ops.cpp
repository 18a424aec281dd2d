#include <algorithm>
#include <array>
#include <cmath>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/affine_quantize.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Whole numbers with a scale and a zero point. Products are computed in f64, where they are exact.

namespace ingot::onnx {
namespace {

/// A scale or zero point laid along `axis` of a tensor of `rank`; undefined stays so.
Tensor along(const OpCall& call, const Tensor& values, int axis, int rank) {
  if (!values.defined()) return values;
  const Tensor wide = to(values, DType::f64);
  if (wide.numel() == 1) return reshape(wide, Shape{});
  if (wide.rank() != 1) call.refuse("scales in blocks");
  INGOT_CHECK(axis >= 0 && axis < rank,
              DimensionMismatch(call.where() + ": " + std::to_string(wide.numel()) +
                                " scales or zero points for a tensor of " + std::to_string(rank) + " axes"));
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), 1);
  dims[static_cast<std::size_t>(axis)] = wide.numel();
  return reshape(wide, to_shape(dims));
}

Tensor rounded(const Tensor& x, DType dtype) {
  const bool is_signed = dtype == DType::i8;
  return to(clamp(round(x), is_signed ? -128 : 0, is_signed ? 127 : 255), dtype);
}

int quantized_axis(const OpCall& call, const Tensor& x) {
  return x.rank() == 0 ? 0 : call.axis("axis", std::min(1, x.rank() - 1), x.rank());
}

/// A scale as the kernels take it; a zero point of one element for many scales would be an error there.
Tensor as_list(const OpCall& call, const Tensor& values) {
  if (!values.defined()) return values;
  if (values.numel() != 1 && values.rank() != 1) call.refuse("scales in blocks");
  return reshape(values, Shape{values.numel()});
}

std::vector<Tensor> quantize(const OpCall& call) {
  const Tensor& x = call.in(0);
  const DType dtype = call.has(2) ? call.in(2).dtype() : DType::u8;
  if (dtype != DType::u8 && dtype != DType::i8) call.refuse("other types than 8-bit whole numbers");
  return {affine_quantize(is_floating_point(x.dtype()) ? x : to(x, DType::f32),
                          to(as_list(call, call.in(1)), DType::f32), as_list(call, call.optional(2)), dtype,
                          quantized_axis(call, x))};
}

std::vector<Tensor> dequantize(const OpCall& call) {
  const Tensor &x = call.in(0), &scale = call.in(1);
  const int axis = quantized_axis(call, x);
  if (x.dtype() == DType::u8 || x.dtype() == DType::i8) {
    return {affine_dequantize(x, to(as_list(call, scale), DType::f32), as_list(call, call.optional(2)),
                              scale.dtype(), axis)};
  }
  const auto on_host = [](const Tensor& t) { return t.defined() ? to(t, kCpu) : t; };  // for f64
  Tensor y = to(on_host(x), DType::f64);
  if (call.has(2)) y = sub(y, along(call, on_host(call.in(2)), axis, x.rank()));
  return {to(mul(y, along(call, on_host(scale), axis, x.rank())), scale.dtype())};
}

std::vector<Tensor> dynamic_quantize(const OpCall& call) {
  const Tensor x = to(call.in(0), DType::f32);
  const double low = x.numel() == 0 ? 0 : std::min(0.0, min(x).item()),
               high = x.numel() == 0 ? 0 : std::max(0.0, max(x).item());
  const auto scale = static_cast<float>((high - low) / 255);
  // In f32 as the definition has it: a tie in f64 need be none there.
  const auto zero =
      static_cast<float>(std::clamp<double>(std::nearbyint(static_cast<float>(-low) / scale), 0, 255));
  const Tensor code = to(Tensor::scalar(zero), DType::u8);
  return {affine_quantize(x, Tensor::from(std::vector<float>{scale}, {1}), reshape(code, {1}), DType::u8),
          Tensor::scalar(scale), code};
}

/// x minus its zero point, which may differ by row (`axis`).
Tensor centred(const OpCall& call, const Tensor& x, const Tensor& zero, int axis) {
  const Tensor wide = to(x, DType::f64);
  return zero.defined() ? sub(wide, along(call, zero, axis, x.rank())) : wide;
}

std::vector<Tensor> integer_product(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  return {to(matmul(centred(call, a, call.optional(2), std::max(0, a.rank() - 2)),
                    centred(call, b, call.optional(3), b.rank() - 1)),
             DType::i32)};
}

std::vector<Tensor> quantized_product(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(3);
  const int rows = std::max(0, a.rank() - 2), columns = b.rank() - 1;
  const Tensor product =
      matmul(mul(centred(call, a, call.in(2), rows), along(call, call.in(1), rows, a.rank())),
             mul(centred(call, b, call.in(5), columns), along(call, call.in(4), columns, b.rank())));
  const Tensor scaled = round(div(product, along(call, call.in(6), product.rank() - 1, product.rank())));
  return {
      rounded(add(scaled, along(call, call.in(7), product.rank() - 1, product.rank())), call.in(7).dtype())};
}

/// Sums of products around the zero points: what is padded counts as zero.
Tensor convolved(const OpCall& call, const Tensor& x, const Tensor& x_zero, const Tensor& weight,
                 const Tensor& weight_zero) {
  return convolution(call, centred(call, x, x_zero, 1), centred(call, weight, weight_zero, 0), {});
}

std::vector<Tensor> integer_convolution(const OpCall& call) {
  return {to(convolved(call, call.in(0), call.optional(2), call.in(1), call.optional(3)), DType::i32)};
}

std::vector<Tensor> quantized_convolution(const OpCall& call) {
  Tensor sums = convolved(call, call.in(0), call.in(2), call.in(3), call.in(5));
  const int rank = sums.rank();
  const auto per_channel = [&](std::size_t i) { return along(call, call.in(i), 1, rank); };
  if (call.has(8)) sums = add(sums, per_channel(8));
  const Tensor scale = div(mul(per_channel(1), per_channel(4)), per_channel(6));
  const Tensor y = round(mul(sums, scale));
  return {rounded(add(y, per_channel(7)), call.in(7).dtype())};
}

constexpr std::array kQuantizeOps = {OpRow{"ConvInteger", integer_convolution},
                                     OpRow{"DequantizeLinear", dequantize, 3},
                                     OpRow{"DynamicQuantizeLinear", dynamic_quantize},
                                     OpRow{"MatMulInteger", integer_product},
                                     OpRow{"QLinearConv", quantized_convolution},
                                     OpRow{"QLinearMatMul", quantized_product},
                                     OpRow{"QuantizeLinear", quantize, 3}};

}  // namespace

std::span<const OpRow> quantize_ops() { return kQuantizeOps; }

}  // namespace ingot::onnx
