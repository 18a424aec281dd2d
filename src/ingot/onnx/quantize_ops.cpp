#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/onnx/window.h"
#include "ingot/ops/affine_quantize.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

// Whole numbers with a scale and a zero point. Matmuls are computed in f64, where they are exact.

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

/// Scales or zero points for every element: one, one for each position of the axis, or one for each block of
/// it.
std::vector<double> spread_scales(const OpCall& call, const Tensor& values, const Shape& shape, int axis) {
  if (values.numel() == 1)
    return std::vector<double>(static_cast<std::size_t>(shape.numel()), as_doubles(values)[0]);
  if (values.rank() == 1 && shape.rank() > 1) {
    return as_doubles(broadcast_to(along(call, values, axis, shape.rank()), shape));
  }
  const std::int64_t block = call.integer("block_size", 0),
                     blocks = values.rank() == shape.rank() ? values.dim(axis) : 0;
  const bool one_each = block == 0 && values.shape() == shape;
  INGOT_CHECK(
      one_each ||
          (block > 0 && blocks > 0 && block <= shape[axis] && (shape[axis] + block - 1) / block == blocks &&
           values.shape().with(axis, shape[axis]) == shape),
      DimensionMismatch(fmt::format("{}: scales or zero points {} for {} in blocks of {}", call.where(),
                                    to_string(values.shape()), to_string(shape), block)));
  if (one_each) return as_doubles(values);
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(shape.rank()), 1);
  repeats[static_cast<std::size_t>(axis)] = block;
  return as_doubles(narrow(repeat_each(to(values, DType::f64), repeats), axis, 0, shape[axis]));
}

/// The least and largest whole number of a type that is quantized to; nothing for floats.
std::optional<std::pair<double, double>> code_range(const StoredType& type) {
  const auto range = [](int bits, bool is_signed) {
    const double count = std::ldexp(1, bits);
    return std::pair(is_signed ? -count / 2 : 0, is_signed ? count / 2 - 1 : count - 1);
  };
  switch (type.element) {
    case ElementType::u16:
      return range(16, false);
    case ElementType::u4:
      return range(4, false);
    case ElementType::i4:
      return range(4, true);
    case ElementType::u2:
      return range(2, false);
    case ElementType::i2:
      return range(2, true);
    case ElementType::plain:
      break;
    default:
      return {};
  }
  if (!is_integer(type.dtype)) return {};
  return range(static_cast<int>(byte_size(type.dtype)) * 8, type.dtype != DType::u8);
}

bool is_by_axis(const Tensor& scale) { return scale.numel() == 1 || scale.rank() == 1; }

/// x / scale in the precision of x, or that which the node asks for.
DType quotient_dtype(const OpCall& call, const Tensor& x) {
  if (call.integer("precision", 0) != 0) return call.dtype("precision", 0);
  return is_floating_point(x.dtype()) ? x.dtype() : DType::f32;
}

Values quantize(const OpCall& call) {
  const Tensor &x = call.in(0), &scale = call.in(1);
  const int axis = quantized_axis(call, x);
  const StoredType type = call.has(2)                            ? call.type(2)
                          : call.integer("output_dtype", 0) != 0 ? call.stored_type("output_dtype", 0)
                                                                 : StoredType{ElementType::plain, DType::u8};
  if (type.element == ElementType::text) call.refuse("codes that are strings");
  const DType precision = quotient_dtype(call, x);
  const bool bytes =
      type.element == ElementType::plain && (type.dtype == DType::u8 || type.dtype == DType::i8);
  if (bytes && is_by_axis(scale) && precision == DType::f32) {
    return {affine_quantize(to(x, DType::f32), to(as_list(call, scale), DType::f32),
                            as_list(call, call.optional(2)), type.dtype, axis)};
  }
  std::vector<double> values = as_doubles(x);
  const std::vector<double> scales = spread_scales(call, scale, x.shape(), axis);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= scales[i];
  values = as_doubles(from_doubles(values, x.shape(), precision));
  const std::vector<double> zeros =
      call.has(2) ? spread_scales(call, call.in(2), x.shape(), axis) : std::vector<double>(values.size(), 0);
  if (const auto range = code_range(type)) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::clamp(std::nearbyint(values[i]) + zeros[i], range->first, range->second);
    return {{from_doubles(values, x.shape(), type.dtype), type.element}};
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += zeros[i];
  return {converted_to(Value(from_doubles(values, x.shape(), DType::f64)), type,
                       call.integer("saturate", 1) != 0)};
}

Values dequantize(const OpCall& call) {
  const Tensor &x = call.in(0), &scale = call.in(1);
  const int axis = quantized_axis(call, x);
  const DType dtype = call.integer("output_dtype", 0) != 0 ? call.dtype("output_dtype", 1) : scale.dtype();
  const bool bytes = call.is_of(0, ElementType::plain) && (x.dtype() == DType::u8 || x.dtype() == DType::i8);
  if (bytes && is_by_axis(scale)) {
    return {affine_dequantize(x, to(as_list(call, scale), DType::f32), as_list(call, call.optional(2)), dtype,
                              axis)};
  }
  std::vector<double> values = as_doubles(x);
  const std::vector<double> scales = spread_scales(call, scale, x.shape(), axis);
  const std::vector<double> zeros =
      call.has(2) ? spread_scales(call, call.in(2), x.shape(), axis) : std::vector<double>(values.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (values[i] - zeros[i]) * scales[i];
  return {from_doubles(values, x.shape(), dtype)};
}

Values dynamic_quantize(const OpCall& call) {
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

Values integer_product(const OpCall& call) {
  const Tensor &a = call.in(0), &b = call.in(1);
  return {to(matmul(centred(call, a, call.optional(2), std::max(0, a.rank() - 2)),
                    centred(call, b, call.optional(3), b.rank() - 1)),
             DType::i32)};
}

Values quantized_matmul(const OpCall& call) {
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

Values integer_convolution(const OpCall& call) {
  return {to(convolved(call, call.in(0), call.optional(2), call.in(1), call.optional(3)), DType::i32)};
}

Values quantized_convolution(const OpCall& call) {
  Tensor sums = convolved(call, call.in(0), call.in(2), call.in(3), call.in(5));
  const int rank = sums.rank();
  const auto per_channel = [&](std::size_t i) { return along(call, call.in(i), 1, rank); };
  if (call.has(8)) sums = add(sums, per_channel(8));
  const Tensor scale = div(mul(per_channel(1), per_channel(4)), per_channel(6));
  const Tensor y = round(mul(sums, scale));
  return {rounded(add(y, per_channel(7)), call.in(7).dtype())};
}

constexpr std::array kQuantizeOps = {
    OpRow{"ConvInteger", integer_convolution},        OpRow{"DequantizeLinear", dequantize, 3, kOwnTypes},
    OpRow{"DynamicQuantizeLinear", dynamic_quantize}, OpRow{"MatMulInteger", integer_product},
    OpRow{"QLinearConv", quantized_convolution},      OpRow{"QLinearMatMul", quantized_matmul},
    OpRow{"QuantizeLinear", quantize, 3, kOwnTypes}};

}  // namespace

std::span<const OpRow> quantize_ops() { return kQuantizeOps; }

}  // namespace ingot::onnx
