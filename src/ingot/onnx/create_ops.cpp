#include <array>
#include <cmath>
#include <numbers>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/core/memory.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Tensors out of nothing, or out of another's shape.

namespace ingot::onnx {
namespace {

Value text_tensor(const OpCall& call, const std::vector<std::string>& texts, const Shape& shape) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(texts.size());
  for (const std::string& text : texts) numbers.push_back(call.texts().number_of(text));
  return {Tensor::from(numbers, shape), ElementType::text};
}

Values constant(const OpCall& call) {
  const auto count = [](const auto& values) { return Shape{static_cast<std::int64_t>(values.size())}; };
  if (call.has_attribute("value") && call.attribute("value").value.defined()) {
    return {call.attribute("value").value};
  }
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
  if (call.has_attribute("value_string"))
    return {text_tensor(call, {call.attribute("value_string").text}, {})};
  if (call.has_attribute("value_strings")) {
    const auto& values = call.attribute("value_strings").texts;
    return {text_tensor(call, values, count(values))};
  }
  call.refuse("a constant that is sparse, or of a type that Ingot lacks");
}

Values constant_of_shape(const OpCall& call) {
  const Value value = call.has_attribute("value") ? call.attribute("value").value : Tensor::scalar(0);
  INGOT_CHECK(value.tensor.defined() && value.tensor.numel() == 1,
              DimensionMismatch(call.where() + ": the value is not one element"));
  return {{broadcast_to(reshape(value.tensor, Shape{}), to_shape(call.integers_in(0))), value.type}};
}

Tensor whole_range(const OpCall& call, DType dtype) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 40;
  const std::int64_t start = call.integer_in(0), limit = call.integer_in(1), step = call.integer_in(2);
  INGOT_CHECK(step != 0, DimensionMismatch(call.where() + ": a range without end"));
  const std::int64_t span = checked_sub(limit, start, "Range");
  const std::int64_t count =
      (span > 0) == (step > 0) && span != 0 ? (span - (step > 0 ? 1 : -1)) / step + 1 : 0;
  INGOT_CHECK(count < kLongest, DimensionMismatch(call.where() + ": a range without end"));
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<std::int64_t>(i) * step;
  return from_integers(values, {count}, dtype);
}

Values range(const OpCall& call) {
  const DType dtype = call.in(0).dtype();
  if (is_integer(dtype)) return {whole_range(call, dtype)};
  const double start = call.number_in(0), limit = call.number_in(1), step = call.number_in(2),
               length = std::ceil((limit - start) / step);
  INGOT_CHECK(step != 0 && length < 1e12, DimensionMismatch(call.where() + ": a range without end"));
  std::vector<double> values(length > 0 ? static_cast<std::size_t>(length) : 0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return {from_doubles(values, {static_cast<std::int64_t>(values.size())}, dtype)};
}

/// The lower or upper triangle of the last two axes, from diagonal k.
Values triangle(const OpCall& call) {
  const Tensor& x = call.in(0, 2);
  const std::int64_t k = call.has(1) ? call.integer_in(1) : 0;
  const bool upper = call.integer("upper", 1) != 0;
  std::int64_t next = 0;
  return {copy_from(x, x.shape(), [&](std::span<const std::int64_t> position) {
    const std::int64_t distance = position[position.size() - 1] - position[position.size() - 2], at = next++;
    return (upper ? distance >= k : distance <= k) ? at : -1;
  })};
}

Values eye_like(const OpCall& call) {
  const Tensor& x = call.in(0, 2, 2);
  const StoredType type = call.has_attribute("dtype") ? call.stored_type("dtype", 0) : call.type(0);
  if (type.element == ElementType::text) call.refuse("a matrix of strings");
  const std::int64_t k = call.integer("k", 0);
  const Tensor one = to(Tensor::scalar(1), type.dtype);
  const Tensor eye = copy_from(one, x.shape(), [&](std::span<const std::int64_t> position) {
    return std::int64_t{position[1] - position[0] == k ? 0 : -1};
  });
  return {{eye, type.element}};
}

/// A window of sound: c0 - c1 cos(t) + c2 cos(2 t), over a period or from end to end.
Values cosine_window(const OpCall& call, double c0, double c1, double c2) {
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
Values hann_window(const OpCall& call) { return cosine_window(call, 0.5, 0.5, 0); }
Values hamming_window(const OpCall& call) { return cosine_window(call, 25.0 / 46, 21.0 / 46, 0); }
Values blackman_window(const OpCall& call) { return cosine_window(call, 0.42, 0.5, 0.08); }

constexpr std::array kCreateOps = {OpRow{"BlackmanWindow", blackman_window},
                                   OpRow{"HammingWindow", hamming_window},
                                   OpRow{"HannWindow", hann_window},
                                   OpRow{"Constant", constant, 0, kOwnTypes},
                                   OpRow{"ConstantOfShape", constant_of_shape, 0, kOwnTypes},
                                   OpRow{"EyeLike", eye_like, 0, kOwnTypes},
                                   OpRow{"Range", range, 0, 0},
                                   OpRow{"Trilu", triangle, 0, 0}};

}  // namespace

std::span<const OpRow> create_ops() { return kCreateOps; }

}  // namespace ingot::onnx
