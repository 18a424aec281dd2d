#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/onnx/whole.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/topk.h"
#include "ingot/ops/view.h"

// Reductions, and what works along one axis.

namespace ingot::onnx {
namespace {

constexpr int kAxesAreInput = 18;  // 13 for ReduceSum

using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);

using Fold = std::int64_t (*)(std::span<const std::int64_t>);

/// What a reduction goes over: axes as an attribute, or from operator set `since` on as the second input.
struct Reduction {
  Axes axes;
  bool keep = true, nothing = false;
};

Reduction read_reduction(const OpCall& call, int since) {
  const std::vector<std::int64_t> given = call.axes(1, since);
  return {call.axes_of(given, call.in(0).rank()), call.integer("keepdims", 1) != 0,
          given.empty() && call.integer("noop_with_empty_axes", 0) != 0};
}

/// Whole numbers by way of f64.
template <Reduce reduce, int since>
Values reduction(const OpCall& call) {
  const Tensor& x = call.in(0);
  const Reduction over = read_reduction(call, since);
  if (over.nothing) return {x};
  if (is_floating_point(x.dtype())) return {reduce(x, over.axes, over.keep)};
  return {to(reduce(to(x, DType::f64), over.axes, over.keep), x.dtype())};
}

/// Whole numbers exactly. `unsigned_fold`: of unsigned numbers of 64 bits.
template <Reduce reduce, Fold whole, Fold unsigned_fold, int since>
Values exact_reduction(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (takes_unsigned(call)) {
    const Reduction over = read_reduction(call, since);
    if (over.nothing) return {x};
    const Tensor y = reduce_whole(to(x, DType::i64), over.axes, over.keep,
                                  [](std::span<const std::int64_t> line) { return unsigned_fold(line); });
    return {to(wrapped_to(y, call.value_in(0).type), x.dtype())};
  }
  if (is_floating_point(x.dtype())) return reduction<reduce, since>(call);
  const Reduction over = read_reduction(call, since);
  if (over.nothing) return {x};
  return {
      reduce_whole(x, over.axes, over.keep, [](std::span<const std::int64_t> line) { return whole(line); })};
}

/// Whole numbers wrap.
std::int64_t line_sum_abs(std::span<const std::int64_t> line) {
  std::uint64_t total = 0;
  for (const std::int64_t v : line)
    total += v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
  return static_cast<std::int64_t>(total);
}
std::int64_t line_sum_square(std::span<const std::int64_t> line) {
  std::uint64_t total = 0;
  for (const std::int64_t v : line) total += static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(v);
  return static_cast<std::int64_t>(total);
}
std::int64_t line_product(std::span<const std::int64_t> line) {
  std::uint64_t total = 1;
  for (const std::int64_t v : line) total *= static_cast<std::uint64_t>(v);
  return static_cast<std::int64_t>(total);
}
/// Towards zero; the sum of a line may be more than 64 bits hold, that of all quotients and that of all rests
/// not.
std::int64_t line_mean(std::span<const std::int64_t> line) {
  const auto count = static_cast<std::int64_t>(line.size());
  if (count == 0) return 0;
  std::int64_t quotient = 0, rest = 0;
  for (const std::int64_t v : line) {
    quotient += v / count;
    rest += v % count;
    quotient += rest / count;
    rest %= count;
  }
  if (quotient > 0 && rest < 0) --quotient;
  if (quotient < 0 && rest > 0) ++quotient;
  return quotient;
}
std::int64_t line_unsigned_mean(std::span<const std::int64_t> line) {
  const auto count = static_cast<std::uint64_t>(line.size());
  if (count == 0) return 0;
  std::uint64_t quotient = 0, rest = 0;
  for (const std::int64_t v : line) {
    quotient += static_cast<std::uint64_t>(v) / count;
    rest += static_cast<std::uint64_t>(v) % count;
    quotient += rest / count;
    rest %= count;
  }
  return static_cast<std::int64_t>(quotient);
}
std::int64_t line_unsigned_max(std::span<const std::int64_t> line) {
  return *std::ranges::max_element(line, {}, [](std::int64_t v) { return static_cast<std::uint64_t>(v); });
}
std::int64_t line_unsigned_min(std::span<const std::int64_t> line) {
  return *std::ranges::min_element(line, {}, [](std::int64_t v) { return static_cast<std::uint64_t>(v); });
}
std::int64_t line_max(std::span<const std::int64_t> line) { return *std::ranges::max_element(line); }
std::int64_t line_min(std::span<const std::int64_t> line) { return *std::ranges::min_element(line); }

/// What the extreme of nothing is: what every other number is beyond.
Tensor extreme_of_nothing(const Shape& shape, DType dtype, bool largest) {
  const auto count = static_cast<std::size_t>(shape.numel());
  if (!is_integer(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double value = dtype == DType::boolean ? (largest ? 0 : 1) : largest ? -infinity : infinity;
    return from_doubles(std::vector<double>(count, value), shape, dtype);
  }
  const std::int64_t most = dtype == DType::u8 ? 255 : INT64_MAX >> (64 - 8 * byte_size(dtype)),
                     least = dtype == DType::u8 ? 0 : -most - 1;
  return from_integers(std::vector<std::int64_t>(count, largest ? least : most), shape, dtype);
}

template <Reduce reduce, Fold whole, Fold unsigned_fold, bool largest>
Values extreme(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (x.numel() > 0) return exact_reduction<reduce, whole, unsigned_fold, kAxesAreInput>(call);
  const bool of_unsigned = takes_unsigned(call);
  const Reduction over = read_reduction(call, kAxesAreInput);
  if (over.nothing) return {x};
  const Shape shape = sum(to(x, DType::f32), over.axes, over.keep).shape();
  if (!of_unsigned) return {extreme_of_nothing(shape, x.dtype(), largest)};
  const Tensor value = wrapped_to(from_integers({largest ? 0 : -1}, {}, DType::i64), call.value_in(0).type);
  return {contiguous(broadcast_to(to(value, x.dtype()), shape))};
}

Tensor sum_abs(const Tensor& x, const Axes& axes, bool keep) { return sum(abs(x), axes, keep); }
Tensor sum_square(const Tensor& x, const Axes& axes, bool keep) { return sum(square(x), axes, keep); }
Tensor norm2(const Tensor& x, const Axes& axes, bool keep) { return sqrt(sum_square(x, axes, keep)); }
Tensor log_sum(const Tensor& x, const Axes& axes, bool keep) { return log(sum(x, axes, keep)); }
Tensor log_sum_exp(const Tensor& x, const Axes& axes, bool keep) {
  if (x.numel() == 0) return log(sum(x, axes, keep));
  const Tensor largest = max(x, axes, true);
  const Tensor result = add(log(sum(exp(sub(x, largest)), axes, true)), largest);
  return reshape(result, sum(x, axes, keep).shape());
}
Tensor product(const Tensor& x, const Axes& axes, bool keep) {
  // The axes that go are brought to the end and multiplied in order.
  std::vector<int> order, gone;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced =
        axes.empty() || std::ranges::any_of(axes, [&](int a) { return (a < 0 ? a + x.rank() : a) == i; });
    (reduced ? gone : order).push_back(i);
  }
  order.insert(order.end(), gone.begin(), gone.end());
  const Shape shape = sum(x, axes, keep).shape();
  const std::vector<double> values = as_doubles(permute(x, order));
  std::vector<double> products(static_cast<std::size_t>(shape.numel()), 1);
  const std::size_t inner = products.empty() ? 0 : values.size() / products.size();
  for (std::size_t i = 0; i < values.size(); ++i) products[i / inner] *= values[i];
  return from_doubles(products, shape, x.dtype());
}

/// The elements of an axis in the order from the last to the first.
Tensor reversed(const Tensor& x, int axis) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(x.dim(axis)));
  std::iota(positions.rbegin(), positions.rend(), 0);
  return pick(x, axis, positions);
}

/// Whole numbers of x's lines along an axis, one line after another, in an order that is that of their type.
std::vector<std::int64_t> whole_lines(const Value& x, int axis) {
  std::vector<std::int64_t> values = as_integers(transpose(x.tensor, axis, x.tensor.rank() - 1));
  if (x.type == ElementType::u64) {
    for (std::int64_t& v : values) v ^= INT64_MIN;
  }
  return values;
}

/// The index of the extreme of each line: the first of equals, or the last.
template <bool largest>
Tensor whole_arg_extreme(const Value& value, int axis, bool keep, bool last) {
  const Tensor& x = value.tensor;
  const std::int64_t width = x.dim(axis);
  INGOT_CHECK(width > 0, DimensionMismatch("the extreme of an axis without elements"));
  const std::vector<std::int64_t> values = whole_lines(value, axis);
  std::vector<std::int64_t> found;
  for (auto line = values.begin(); line != values.end(); line += width) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < width; ++i) {
      const bool beyond = largest ? line[i] > line[best] : line[i] < line[best];
      if (beyond || (last && line[i] == line[best])) best = i;
    }
    found.push_back(best);
  }
  const Tensor lines = Tensor::from(found, x.shape().with(axis, x.dim(-1)).drop_last());
  return keep ? contiguous(transpose(unsqueeze(lines, x.rank() - 1), axis, x.rank() - 1))
              : reshape(contiguous(transpose(unsqueeze(lines, x.rank() - 1), axis, x.rank() - 1)),
                        x.shape().erase(axis));
}

/// The index of the extreme along an axis: the first of equals, or the last.
template <bool largest>
Values arg_extreme(const OpCall& call) {
  takes_unsigned(call);
  const int axis = call.axis("axis", 0, call.in(0).rank());
  const bool keep = call.integer("keepdims", 1) != 0, last = call.integer("select_last_index", 0) != 0;
  if (!is_floating_point(call.in(0).dtype()))
    return {whole_arg_extreme<largest>(call.value_in(0), axis, keep, last)};
  const Tensor x = largest ? call.in(0) : neg(call.in(0));
  if (!last) return {argmax(x, axis, keep)};
  const Tensor from_end = to(argmax(reversed(x, axis), axis, keep), kCpu);
  return {sub(broadcast_to(Tensor::from(std::vector<std::int64_t>{x.dim(axis) - 1}, {}), from_end.shape()),
              from_end)};
}

/// Softmax and its kin on one axis; before operator set 13 on all axes from there on as one.
template <Tensor (*op)(const Tensor&)>
Values along_axis(const OpCall& call) {
  const Tensor& x = call.in(0);
  if (call.opset() >= 13) {
    const int axis = call.axis("axis", -1, x.rank());
    if (axis == x.rank() - 1) return {op(x)};
    return {contiguous(transpose(op(contiguous(transpose(x, axis, x.rank() - 1))), axis, x.rank() - 1))};
  }
  const int axis = call.axis("axis", 1, x.rank());
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.dim(i);
  return {reshape(op(reshape(x, {rows, rows == 0 ? 0 : x.numel() / rows})), x.shape())};
}

/// 1 at the first largest element of each row, 0 elsewhere.
Tensor hardmax(const Tensor& x) {
  const std::vector<double> values = as_doubles(x);
  std::vector<double> ones(values.size(), 0);
  const auto width = static_cast<std::size_t>(x.dim(-1));
  for (std::size_t row = 0; width > 0 && row + width <= values.size(); row += width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
    ones[row + static_cast<std::size_t>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(width)) -
                                        begin)] = 1;
  }
  return from_doubles(ones, x.shape(), x.dtype());
}

/// What stands before each element of an axis, combined, with the element or (exclusive) without.
template <class T>
void accumulate(std::vector<T>& values, std::size_t length, bool exclusive, bool reverse, bool products) {
  for (std::size_t line = 0; length > 0 && line < values.size(); line += length) {
    T total = products ? 1 : 0;
    for (std::size_t i = 0; i < length; ++i) {
      T& value = values[line + (reverse ? length - 1 - i : i)];
      const T before = total;
      total = products ? total * value : total + value;
      value = exclusive ? before : total;
    }
  }
}

/// Whole numbers wrap.
template <bool products>
Values cumulative(const OpCall& call) {
  const Tensor& x = call.in(0);
  const bool of_unsigned = takes_unsigned(call);
  const int axis = call.axis_of(call.integer_in(1), x.rank());
  const bool exclusive = call.integer("exclusive", 0) != 0, reverse = call.integer("reverse", 0) != 0;
  const Tensor lines = transpose(x, axis, x.rank() - 1);
  const auto length = static_cast<std::size_t>(x.dim(axis));
  Tensor y;
  if (is_integer(x.dtype())) {
    const std::vector<std::int64_t> whole = as_integers(lines);
    std::vector<std::uint64_t> values(whole.begin(), whole.end());
    accumulate(values, length, exclusive, reverse, products);
    y = from_integers({values.begin(), values.end()}, lines.shape(), of_unsigned ? DType::i64 : x.dtype());
    if (of_unsigned) y = to(wrapped_to(y, call.value_in(0).type), x.dtype());
  } else {
    std::vector<double> values = as_doubles(lines);
    accumulate(values, length, exclusive, reverse, products);
    y = from_doubles(values, lines.shape(), x.dtype());
  }
  return {contiguous(transpose(y, axis, x.rank() - 1))};
}

/// The indices of the k extremes of each line, in order; of equals the first comes first.
Tensor whole_top_k(const Value& value, int axis, std::int64_t k, bool largest) {
  const Shape lines = transpose(value.tensor, axis, value.tensor.rank() - 1).shape();
  const std::int64_t width = lines.back();
  const std::vector<std::int64_t> values = whole_lines(value, axis);
  std::vector<std::int64_t> found, order(static_cast<std::size_t>(width));
  for (auto line = values.begin(); line != values.end(); line += width) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + k, [&](std::int64_t a, std::int64_t b) {
      if (line[a] == line[b]) return a < b;
      return largest ? line[a] > line[b] : line[a] < line[b];
    });
    found.insert(found.end(), order.begin(), order.begin() + k);
  }
  return Tensor::from(found, lines.with(lines.rank() - 1, k));
}

/// The k extremes along an axis, in order; of equals the first comes first.
Values top_k(const OpCall& call) {
  const Tensor& x = call.in(0);
  const int axis = call.axis("axis", -1, x.rank());
  const std::int64_t k = call.opset() < 10 ? call.integer("k", 1) : call.integer_in(1);
  INGOT_CHECK(k >= 0 && k <= x.dim(axis), DimensionMismatch(call.where() + ": k is more than the axis has"));
  const Tensor lines = transpose(x, axis, x.rank() - 1);
  if (k == 0 || x.numel() == 0) {
    const Shape shape = x.shape().with(axis, k);
    return {Tensor::empty(shape, x.dtype(), x.device()), Tensor::empty(shape, DType::i64, x.device())};
  }
  const bool largest = call.integer("largest", 1) != 0;
  const auto of_floats = [&] {
    const Tensor floats = contiguous(lines);
    return topk(largest ? floats : neg(floats), k).indices;
  };
  const Tensor positions =
      is_floating_point(x.dtype()) ? of_floats() : whole_top_k(call.value_in(0), axis, k, largest);
  const auto back = [&](const Tensor& t) { return contiguous(transpose(t, axis, x.rank() - 1)); };
  return {back(gather_within(lines, x.rank() - 1, positions)), back(positions)};
}

constexpr std::array kReduceOps = {
    OpRow{"ArgMax", arg_extreme<true>, 1, kOwnTypes},
    OpRow{"ArgMin", arg_extreme<false>, 1, kOwnTypes},
    OpRow{"CumProd", cumulative<true>, 0, 0},
    OpRow{"CumSum", cumulative<false>, 0, 0},
    OpRow{"Hardmax", along_axis<hardmax>},
    OpRow{"LogSoftmax", along_axis<log_softmax>, 1},
    OpRow{"ReduceL1", exact_reduction<sum_abs, line_sum_abs, sum_whole, kAxesAreInput>, 1, 0},
    OpRow{"ReduceL2", reduction<norm2, kAxesAreInput>, 1},
    OpRow{"ReduceLogSum", reduction<log_sum, kAxesAreInput>, 1},
    OpRow{"ReduceLogSumExp", reduction<log_sum_exp, kAxesAreInput>, 1},
    OpRow{"ReduceMax", extreme<max, line_max, line_unsigned_max, true>, 1, 0},
    OpRow{"ReduceMean", exact_reduction<mean, line_mean, line_unsigned_mean, kAxesAreInput>, 1, 0},
    OpRow{"ReduceMin", extreme<min, line_min, line_unsigned_min, false>, 1, 0},
    OpRow{"ReduceProd", exact_reduction<product, line_product, line_product, kAxesAreInput>, 0, 0},
    OpRow{"ReduceSum", exact_reduction<sum, sum_whole, sum_whole, 13>, 1, 0},
    OpRow{"ReduceSumSquare", exact_reduction<sum_square, line_sum_square, line_sum_square, kAxesAreInput>, 1,
          0},
    OpRow{"Softmax", along_axis<softmax>, 1},
    OpRow{"TopK", top_k, 1, 0}};

}  // namespace

std::span<const OpRow> reduce_ops() { return kReduceOps; }

}  // namespace ingot::onnx
