#include <array>
#include <cmath>
#include <numbers>

#include "ingot/base/error.h"
#include "ingot/core/memory.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Tensors out of nothing, or out of another's shape.

namespace ingot::onnx {
namespace {

std::vector<Tensor> constant(const OpCall& call) {
  const auto count = [](const auto& values) { return Shape{static_cast<std::int64_t>(values.size())}; };
  if (call.has_attribute("value")) return {call.attribute("value").tensor};
  if (call.has_attribute("value_float")) return {Tensor::scalar(call.attribute("value_float").number)};
  if (call.has_attribute("value_int")) {
    return {Tensor::from(std::vector<std::int64_t>{call.attribute("value_int").integer}, {})};
  }
  if (call.has_attribute("value_floats")) {
    const auto& values = call.attribute("value_floats").numbers;
    return {Tensor::from(values, count(values))};
  }
  if (call.has_attribute("value_ints")) {
    const auto& values = call.attribute("value_ints").integers;
    return {Tensor::from(values, count(values))};
  }
  call.refuse("a constant that is sparse, or text");
}

std::vector<Tensor> constant_of_shape(const OpCall& call) {
  const Tensor value = call.has_attribute("value") ? call.attribute("value").tensor : Tensor::scalar(0);
  INGOT_CHECK(value.numel() == 1, DimensionMismatch(call.where() + ": the value is more than one element"));
  return {broadcast_to(reshape(value, Shape{}), to_shape(call.integers_in(0)))};
}

std::vector<Tensor> range(const OpCall& call) {
  const DType dtype = call.in(0).dtype();
  const double start = call.number_in(0), limit = call.number_in(1), step = call.number_in(2),
               length = std::ceil((limit - start) / step);
  INGOT_CHECK(step != 0 && length < 1e12, DimensionMismatch(call.where() + ": a range without end"));
  std::vector<double> values(length > 0 ? static_cast<std::size_t>(length) : 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return {from_doubles(values, {static_cast<std::int64_t>(values.size())}, dtype)};
}

/// The lower or upper triangle of the last two axes, from diagonal k.
std::vector<Tensor> triangle(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  const std::int64_t k = call.has(1) ? call.integer_in(1) : 0;
  const bool upper = call.integer("upper", 1) != 0;
  std::int64_t next = 0;
  return {copy_from(x, x.shape(), [&](std::span<const std::int64_t> place) {
    const std::int64_t distance = place[place.size() - 1] - place[place.size() - 2], at = next++;
    return (upper ? distance >= k : distance <= k) ? at : -1;
  })};
}

std::vector<Tensor> eye_like(const OpCall& call) {
  const Tensor& x = call.in(0, 2, 2);
  const DType dtype = call.has_attribute("dtype") ? call.dtype("dtype", 0) : x.dtype();
  const std::int64_t k = call.integer("k", 0);
  const Tensor one = to(Tensor::scalar(1), dtype);
  return {copy_from(one, x.shape(), [&](std::span<const std::int64_t> place) {
    return std::int64_t{place[1] - place[0] == k ? 0 : -1};
  })};
}

/// A window of sound: c0 - c1 cos(t) + c2 cos(2 t), over a period or from end to end.
std::vector<Tensor> cosine_window(const OpCall& call, double c0, double c1, double c2) {
  const std::int64_t size = call.integer_in(0);
  INGOT_CHECK(size >= 0 && size < 1'000'000'000,
              DimensionMismatch(call.where() + ": a window of " + std::to_string(size)));
  const DType dtype = call.dtype("output_datatype", 1);
  const std::int64_t period = call.integer("periodic", 1) != 0 ? size : size - 1;
  std::vector<double> values(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const double t =
        period == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    values[static_cast<std::size_t>(i)] = c0 - c1 * std::cos(t) + c2 * std::cos(2 * t);
  }
  return {from_doubles(values, {size}, dtype)};
}
std::vector<Tensor> hann_window(const OpCall& call) { return cosine_window(call, 0.5, 0.5, 0); }
std::vector<Tensor> hamming_window(const OpCall& call) {
  return cosine_window(call, 25.0 / 46, 21.0 / 46, 0);
}
std::vector<Tensor> blackman_window(const OpCall& call) { return cosine_window(call, 0.42, 0.5, 0.08); }

constexpr std::array kCreateOps = {OpRow{"BlackmanWindow", blackman_window},
                                   OpRow{"HammingWindow", hamming_window},
                                   OpRow{"HannWindow", hann_window},
                                   OpRow{"Constant", constant},
                                   OpRow{"ConstantOfShape", constant_of_shape},
                                   OpRow{"EyeLike", eye_like},
                                   OpRow{"Range", range},
                                   OpRow{"Trilu", triangle}};

}  // namespace

std::span<const OpRow> create_ops() { return kCreateOps; }

}  // namespace ingot::onnx
