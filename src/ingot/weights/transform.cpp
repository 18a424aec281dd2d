#include "ingot/weights/transform.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"
#include "ingot/quant/block_format.h"

namespace ingot {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce it

int checked_axis(int axis, const TensorForm& form, const std::string& tensor) {
  const int rank = static_cast<int>(form.shape.size());
  INGOT_CHECK(axis >= -rank && axis < rank,
              InvalidConfig(tensor, fmt::format("shape {} has no axis {}", to_string(form.shape), axis)));
  return axis < 0 ? axis + rank : axis;
}

std::int64_t numel(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Tensor rotary(const Tensor& x, std::int64_t heads, bool to_halves) {
  const Shape whole = x.shape();
  const std::int64_t half = whole[0] / heads / 2;
  const std::int64_t rest = whole.rank() > 1 ? x.numel() / whole[0] : 1;
  const Tensor split = to_halves ? reshape(x, {heads, half, 2, rest}) : reshape(x, {heads, 2, half, rest});
  return reshape(contiguous(transpose(split, 1, 2)), whole);
}

/// Copies slices of one axis; of any type, and of bytes as well.
Tensor taken(const Tensor& tensor, int axis, const std::vector<std::int64_t>& order) {
  const Tensor x = contiguous(tensor);
  const int at = axis < 0 ? axis + x.rank() : axis;
  const auto count = static_cast<std::int64_t>(order.size()), size = x.dim(at);
  Tensor out = Tensor::empty(x.shape().with(at, count), x.dtype());
  if (out.numel() == 0) return out;
  std::int64_t outer = 1;
  for (int i = 0; i < at; ++i) outer *= x.dim(i);
  const std::size_t bytes = x.nbytes() / static_cast<std::size_t>(outer * size);
  const auto* from = static_cast<const std::byte*>(x.view().data);
  auto* to = static_cast<std::byte*>(out.view().data);
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < count; ++j)
      std::memcpy(to + static_cast<std::size_t>(i * count + j) * bytes,
                  from + static_cast<std::size_t>(i * size + order[static_cast<std::size_t>(j)]) * bytes,
                  bytes);
  return out;
}

Tensor with_scaled_rows(const Tensor& x, const std::vector<double>& factors) {
  const std::vector<float> narrow(factors.begin(), factors.end());
  const Tensor by_row = Tensor::from(narrow, {x.dim(0)});
  return to(x, DType::f32) * (x.rank() == 1 ? by_row : ingot::reshape(by_row, {x.dim(0), 1}));
}

/// x in blocks. `importance`: [cols], or [matrices, cols] of a stack; or empty.
std::vector<std::byte> quantized(const Tensor& x, const quant::BlockFormat& format,
                                 std::span<const float> importance) {
  const Tensor values = contiguous(to(x, DType::f32));
  const std::span all(values.data<float>(), static_cast<std::size_t>(values.numel()));
  std::vector<std::byte> blocks(format.row_bytes(values.numel()));
  const auto cols = static_cast<std::size_t>(values.dim(-1));
  const std::size_t matrices = importance.empty() ? 1 : importance.size() / cols;
  const std::size_t size = all.size() / matrices, bytes = blocks.size() / matrices;
  for (std::size_t m = 0; m < matrices; ++m)
    quant::quantize(format, all.subspan(m * size, size), std::span(blocks).subspan(m * bytes, bytes),
                    importance.empty() ? importance : importance.subspan(m * cols, cols));
  return blocks;
}

/// The values that quantizing leaves.
Tensor rounded(const Tensor& x, const quant::BlockFormat& format, std::span<const float> importance) {
  const std::vector<std::byte> blocks = quantized(x, format, importance);
  Tensor out = Tensor::empty(x.shape());
  quant::dequantize(format, blocks, {out.data<float>(), static_cast<std::size_t>(out.numel())});
  return out;
}

void check_importance(const std::vector<float>* importance, const TensorForm& form,
                      const std::string& tensor) {
  if (importance == nullptr) return;
  std::int64_t expected = form.shape.back();
  for (std::size_t i = 0; i + 2 < form.shape.size(); ++i) expected *= form.shape[i];
  INGOT_CHECK(
      static_cast<std::int64_t>(importance->size()) == expected,
      InvalidConfig(tensor, fmt::format("has {} columns; the importance matrix tells of {}: it was made for "
                                        "another model",
                                        expected, importance->size())));
}

std::span<const float> span_of(const std::shared_ptr<const std::vector<float>>& values) {
  return values == nullptr ? std::span<const float>{} : std::span<const float>(*values);
}

}  // namespace

Transform Transform::transpose(int a, int b) { return Transform(Permute{{}, a, b}); }
Transform Transform::permute(std::vector<int> order) { return Transform(Permute{std::move(order)}); }
Transform Transform::reshape(std::vector<std::int64_t> shape) { return Transform(Reshape{std::move(shape)}); }
Transform Transform::cast(DType dtype) { return Transform(Cast{dtype}); }
Transform Transform::scale(double factor, double offset) { return Transform(Scale{factor, offset}); }
Transform Transform::negative_exp() { return Transform(NegativeExp{false}); }
Transform Transform::log_of_negative() { return Transform(NegativeExp{true}); }
Transform Transform::slice(int axis, std::int64_t begin, std::int64_t end) {
  return Transform(Slice{axis, begin, end, 0});
}
Transform Transform::scale_rows(std::vector<double> factors) {
  return Transform(ScaleRows{std::move(factors)});
}
Transform Transform::take(int axis, std::vector<std::int64_t> order) {
  return Transform(Take{axis, std::move(order)});
}
Transform Transform::part(int axis, std::int64_t index, std::int64_t parts) {
  return Transform(Slice{axis, index, 0, parts});
}
Transform Transform::select(std::int64_t index) { return Transform(Select{index}); }
Transform Transform::rotary_to_halves(std::int64_t heads) { return Transform(Rotary{heads, true}); }
Transform Transform::rotary_to_pairs(std::int64_t heads) { return Transform(Rotary{heads, false}); }
Transform Transform::quantize(const quant::BlockFormat& format,
                              std::shared_ptr<const std::vector<float>> importance) {
  return Transform(Quantize{&format, std::move(importance)});
}

TensorForm Transform::infer_permute(const Permute& step, TensorForm form, const std::string& tensor) const {
  if (step.order.empty()) {
    std::swap(form.shape[static_cast<std::size_t>(checked_axis(step.a, form, tensor))],
              form.shape[static_cast<std::size_t>(checked_axis(step.b, form, tensor))]);
    return form;
  }
  std::vector<int> sorted = step.order;
  std::ranges::sort(sorted);
  std::vector<int> all(form.shape.size());
  std::iota(all.begin(), all.end(), 0);
  INGOT_CHECK(sorted == all,
              InvalidConfig(tensor, fmt::format("the order to permute by does not name each axis "
                                                "of {} once",
                                                to_string(form.shape))));
  TensorForm result = form;
  for (std::size_t i = 0; i < all.size(); ++i) {
    result.shape[i] = form.shape[static_cast<std::size_t>(step.order[i])];
  }
  return result;
}

TensorForm Transform::infer_reshape(const Reshape& step, TensorForm form, const std::string& tensor) const {
  std::vector<std::int64_t> shape = step.shape;
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end()) {
    *open = 1;
    const std::int64_t known = numel(shape);
    *open = known == 0 ? 0 : numel(form.shape) / known;
  }
  INGOT_CHECK(numel(shape) == numel(form.shape),
              InvalidConfig(tensor, fmt::format("shape {} cannot become {}", to_string(form.shape),
                                                to_string(step.shape))));
  return {std::move(shape), form.dtype};
}

TensorForm Transform::infer_take(const Take& step, TensorForm form, const std::string& tensor) const {
  std::int64_t& size = form.shape[static_cast<std::size_t>(checked_axis(step.axis, form, tensor))];
  for (const std::int64_t from : step.order)
    INGOT_CHECK(from >= 0 && from < size,
                InvalidConfig(tensor, fmt::format("an axis of {} has no element {}", size, from)));
  INGOT_CHECK(static_cast<std::int64_t>(step.order.size()) == size,
              InvalidConfig(tensor, fmt::format("an order of {} elements is not one of an axis of {}",
                                                step.order.size(), size)));
  return form;
}

TensorForm Transform::infer_slice(const Slice& step, TensorForm form, const std::string& tensor) const {
  std::int64_t& size = form.shape[static_cast<std::size_t>(checked_axis(step.axis, form, tensor))];
  if (step.parts > 0) {
    INGOT_CHECK(size % step.parts == 0 && step.begin >= 0 && step.begin < step.parts,
                InvalidConfig(
                    tensor, fmt::format("{} elements have no part {} of {}", size, step.begin, step.parts)));
    size /= step.parts;
    return form;
  }
  INGOT_CHECK(step.begin >= 0 && step.begin <= step.end && step.end <= size,
              InvalidConfig(
                  tensor, fmt::format("an axis of {} has no elements {} to {}", size, step.begin, step.end)));
  size = step.end - step.begin;
  return form;
}

TensorForm Transform::infer(const TensorForm& form, const std::string& tensor) const {
  return std::visit(
      Overloaded{
          [&](const Permute& step) { return infer_permute(step, form, tensor); },
          [&](const Reshape& step) { return infer_reshape(step, form, tensor); },
          [&](const Cast& step) {
            return TensorForm{form.shape, step.dtype};
          },
          [&](const Scale&) {
            INGOT_CHECK(is_floating_point(form.dtype),
                        InvalidConfig(tensor, fmt::format("{} cannot be scaled", ingot::name(form.dtype))));
            return form;
          },
          [&](const NegativeExp&) {
            INGOT_CHECK(is_floating_point(form.dtype),
                        InvalidConfig(tensor, fmt::format("{} has no exponential", ingot::name(form.dtype))));
            return form;
          },
          [&](const ScaleRows& step) {
            const bool fits = (form.shape.size() == 1 || form.shape.size() == 2) &&
                              form.shape[0] == static_cast<std::int64_t>(step.factors.size());
            INGOT_CHECK(fits && is_floating_point(form.dtype),
                        InvalidConfig(tensor, fmt::format("{} is not a matrix of {} rows to scale",
                                                          to_string(form.shape), step.factors.size())));
            return TensorForm{form.shape, DType::f32};
          },
          [&](const Slice& step) { return infer_slice(step, form, tensor); },
          [&](const Take& step) { return infer_take(step, form, tensor); },
          [&](const Select& step) {
            INGOT_CHECK(!form.shape.empty() && step.index >= 0 && step.index < form.shape[0],
                        InvalidConfig(
                            tensor, fmt::format("{} has no element {}", to_string(form.shape), step.index)));
            return TensorForm{{form.shape.begin() + 1, form.shape.end()}, form.dtype};
          },
          [&](const Rotary& step) {
            INGOT_CHECK(!form.shape.empty() && step.heads > 0 && form.shape[0] % (2 * step.heads) == 0,
                        InvalidConfig(tensor, fmt::format("{} is not a projection to {} heads of pairs",
                                                          to_string(form.shape), step.heads)));
            return form;
          },
          [&](const Quantize& step) {
            INGOT_CHECK(!form.shape.empty() && form.shape.back() % step.format->elements == 0,
                        InvalidConfig(tensor, fmt::format("rows of {} are not whole blocks of {} ({})",
                                                          to_string(form.shape), step.format->elements,
                                                          step.format->name)));
            check_importance(step.importance.get(), form, tensor);
            return TensorForm{form.shape, DType::f32};
          },
      },
      step_);
}

Tensor Transform::apply(const Tensor& x) const {
  return std::visit(
      Overloaded{
          [&](const Permute& step) {
            return step.order.empty() ? ingot::transpose(x, step.a, step.b) : ingot::permute(x, step.order);
          },
          [&](const Reshape&) {
            return ingot::reshape(
                x, Shape(std::span<const std::int64_t>(infer({x.shape().to_vector(), x.dtype()}, "").shape)));
          },
          [&](const Cast& step) { return to(x, step.dtype); },
          [&](const Scale& step) { return ingot::scale(x, step.factor, step.offset); },
          [&](const NegativeExp& step) {
            return step.inverse ? ingot::log(ingot::scale(x, -1, 0)) : ingot::scale(ingot::exp(x), -1, 0);
          },
          [&](const ScaleRows& step) { return with_scaled_rows(x, step.factors); },
          [&](const Take& step) { return taken(x, step.axis, step.order); },
          [&](const Slice& step) {
            if (step.parts == 0) return narrow(x, step.axis, step.begin, step.end - step.begin);
            const std::int64_t size = x.shape()[step.axis] / step.parts;
            return narrow(x, step.axis, step.begin * size, size);
          },
          [&](const Select& step) { return ingot::select(x, 0, step.index); },
          [&](const Rotary& step) { return rotary(x, step.heads, step.to_halves); },
          [&](const Quantize& step) { return rounded(x, *step.format, span_of(step.importance)); },
      },
      step_);
}

bool Transform::keeps_rows(int rank) const {
  const auto is_last = [rank](int axis) { return axis == -1 || axis == rank - 1; };
  if (const auto* step = std::get_if<Permute>(&step_)) {
    return step->order.empty() ? !is_last(step->a) && !is_last(step->b) : is_last(step->order.back());
  }
  if (const auto* step = std::get_if<Slice>(&step_)) return !is_last(step->axis);
  if (const auto* step = std::get_if<Take>(&step_)) return !is_last(step->axis);
  return (std::holds_alternative<Rotary>(step_) || std::holds_alternative<Select>(step_)) && rank > 1;
}

bool Transform::transposes_matrix() const {
  const auto* step = std::get_if<Permute>(&step_);
  if (step == nullptr) return false;
  if (!step->order.empty()) return step->order == std::vector<int>{1, 0};
  const int a = step->a < 0 ? step->a + 2 : step->a, b = step->b < 0 ? step->b + 2 : step->b;
  return a + b == 1;
}

const quant::BlockFormat* Transform::block_format() const {
  const auto* step = std::get_if<Quantize>(&step_);
  return step == nullptr ? nullptr : step->format;
}

std::vector<std::byte> Transform::blocks_of(const Tensor& x) const {
  const auto& step = std::get<Quantize>(step_);
  return quantized(x, *step.format, span_of(step.importance));
}

}  // namespace ingot
