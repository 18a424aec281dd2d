#include "ingot/ops/view.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/ops/broadcast.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {
namespace {

View reshaped(const View& x, const Shape& shape) { return contiguous_view(x.data, shape, x.dtype, x.device); }

struct ReshapeNode final : Node {
  static constexpr const char* kName = "reshape";
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    ctx.pass(0, Tensor(dy.storage(), reshaped(dy.view(), inputs()[0].shape)));
  }
};

// Strides of x's elements seen as `shape`, if a view can be that: each group of axes that have one product of
// sizes must itself be free of gaps.
std::optional<View> reshape_view(const View& x, const Shape& shape) {
  if (x.is_contiguous()) return reshaped(x, shape);
  View result = reshaped(x, shape);
  if (x.numel() == 0) return result;
  int to = shape.rank() - 1;
  int from = x.rank - 1;
  while (from >= 0) {
    // A run of x's axes without gaps, from the innermost outwards.
    std::int64_t size = x.dim(from);
    const std::int64_t stride = x.stride(from);
    while (from > 0 && (x.dim(from - 1) == 1 || x.stride(from - 1) == stride * size)) size *= x.dim(--from);
    --from;
    std::int64_t product = 1;
    while (to >= 0 && (product < size || shape[to] == 1)) {
      result.strides[static_cast<std::size_t>(to)] = stride * product;
      product *= shape[to--];
    }
    if (product != size) return std::nullopt;
  }
  return result;
}

// `sizes` with -1 replaced by what is left.
Shape completed(const Tensor& x, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> dims(sizes.begin(), sizes.end());
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& size : dims) {
    if (size != -1) {
      known = checked_mul(known, size, "reshape");
      continue;
    }
    INGOT_CHECK(open == nullptr,
                DimensionMismatch("reshape: only one size may be -1, got " + to_string(dims)));
    open = &size;
  }
  INGOT_CHECK(open == nullptr || (known > 0 && x.numel() % known == 0),
              ShapeMismatch("reshape", x.shape().to_vector(), dims, "no size for the -1 fits"));
  if (open != nullptr) *open = x.numel() / known;
  return Shape(std::span<const std::int64_t>(dims));
}

struct PermuteNode final : Node {
  static constexpr const char* kName = "permute";
  std::array<std::int8_t, kMaxRank> order;
  explicit PermuteNode(const std::array<std::int8_t, kMaxRank>& order_) : order(order_) {}
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override {
    const Tensor& dy = ctx.grad();
    View view = dy.view();
    for (int i = 0; i < view.rank; ++i) {
      const auto to = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
      view.shape[to] = dy.dim(i);
      view.strides[to] = dy.stride(i);
    }
    ctx.pass(0, Tensor(dy.storage(), view));
  }
};

struct BroadcastNode final : Node {
  static constexpr const char* kName = "broadcast_to";
  std::string_view name() const override { return kName; }
  void backward(BackwardContext& ctx) override { pass_summed(ctx, 0, ctx.grad(), inputs()[0].shape); }
};

// Elements [start, start + length·step) of an axis. No check.
View sliced(const View& x, int axis, std::int64_t start, std::int64_t length, std::int64_t step = 1) {
  View view = x;
  const auto at = static_cast<std::size_t>(axis);
  view.data = x.as<char>() + start * x.stride(axis) * static_cast<std::int64_t>(byte_size(x.dtype));
  view.shape[at] = length;
  view.strides[at] = x.stride(axis) * step;
  return view;
}

void copy_into(const View& from, const View& to, bool accumulate, Stream stream) {
  if (from.numel() > 0)
    kernels::launch(kernels::copy, stream, {.x = from, .y = to, .accumulate = accumulate});
}

struct SliceNode final : Node {
  static constexpr const char* kName = "slice";
  int axis;
  std::int64_t start, step;
  SliceNode(int axis_, std::int64_t start_, std::int64_t step_) : axis(axis_), start(start_), step(step_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    const GradSlot dx = ctx.slot(0);
    if (!dx.accumulate) kernels::launch(kernels::fill, ctx.stream(), {.y = dx.view});
    copy_into(dy, sliced(dx.view, axis, start, dy.dim(axis), step), dx.accumulate, ctx.stream());
  }
};

Tensor slice_of(const Tensor& x, int axis, std::int64_t start, std::int64_t length, std::int64_t step) {
  if (length == 0) start = 0;  // no pointer past the end
  Tensor y(x.storage(), sliced(x.view(), axis, start, length, step));
  return record<SliceNode>(y, {&x}, axis, start, step);
}

struct SplitNode final : Node {
  static constexpr const char* kName = "split";
  int axis;
  std::vector<std::int64_t> sizes;
  SplitNode(int axis_, const std::vector<std::int64_t>& sizes_) : axis(axis_), sizes(sizes_) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const GradSlot dx = ctx.slot(0);
    const Stream stream = current_stream(dx.view.device);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Tensor& dy = ctx.grad(static_cast<int>(i));
      const View part = sliced(dx.view, axis, start, sizes[i]);
      start += sizes[i];
      if (dy.defined()) {
        copy_into(dy.view(), part, dx.accumulate, stream);
      } else if (!dx.accumulate && sizes[i] > 0) {
        kernels::launch(kernels::fill, stream, {.y = part});
      }
    }
  }
};

struct ConcatNode final : Node {
  static constexpr const char* kName = "concat";
  int axis;
  std::vector<std::int64_t> sizes;
  ConcatNode(int axis_, std::vector<std::int64_t> sizes_) : axis(axis_), sizes(std::move(sizes_)) {}
  std::string_view name() const override { return kName; }

  void backward(BackwardContext& ctx) override {
    const View dy = ctx.grad().view();
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const View part = sliced(dy, axis, start, sizes[i]);
      start += sizes[i];
      const GradSlot dx = ctx.slot(static_cast<int>(i));
      if (dx) copy_into(part, dx.view, dx.accumulate, ctx.stream());
    }
  }
};

}  // namespace

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  check_defined("reshape", {&x});
  return reshape(x, completed(x, {sizes.begin(), sizes.size()}));
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  check_defined("reshape", {&x});
  INGOT_CHECK(shape.numel() == x.numel(), ShapeMismatch("reshape", x.shape().to_vector(), shape.to_vector(),
                                                        "the numbers of elements differ"));
  if (const std::optional<View> view = reshape_view(x.view(), shape)) {
    const Tensor y = record<ReshapeNode>(Tensor(x.storage(), *view), {&x});
    if (!is_recomputed(x)) return y;
    return recomputable(y, {&x}, [shape](std::span<const Tensor> in) { return reshape(in[0], shape); });
  }
  const Tensor copy = clone(x);
  return record<ReshapeNode>(Tensor(copy.storage(), reshaped(copy.view(), shape)), {&copy});
}

Tensor flatten(const Tensor& x, int first, int last) {
  check_defined("flatten", {&x});
  if (x.rank() == 0) return reshape(x, {1});
  const int from = normalize_axis(first, x.rank(), "flatten"), to = normalize_axis(last, x.rank(), "flatten");
  INGOT_CHECK(from <= to, DimensionMismatch("flatten: axis " + std::to_string(first) + " comes after axis " +
                                            std::to_string(last)));
  Shape shape = x.shape();
  for (int i = from; i < to; ++i) {
    shape[from] *= shape[from + 1];
    shape = shape.erase(from + 1);
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  check_defined("permute", {&x});
  INGOT_CHECK(order.size() == static_cast<std::size_t>(x.rank()),
              DimensionMismatch("permute: " + std::to_string(order.size()) + " axes for shape " +
                                to_string(x.shape())));
  std::array<std::int8_t, kMaxRank> axes{};
  unsigned seen = 0;
  View view = x.view();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int axis = normalize_axis(order[i], x.rank(), "permute");
    INGOT_CHECK((seen & (1U << axis)) == 0,
                DimensionMismatch("permute: axis " + std::to_string(order[i]) + " is given twice"));
    seen |= 1U << axis;
    axes[i] = static_cast<std::int8_t>(axis);
    view.shape[i] = x.dim(axis);
    view.strides[i] = x.stride(axis);
  }
  return record<PermuteNode>(Tensor(x.storage(), view), {&x}, axes);
}

Tensor transpose(const Tensor& x, int a, int b) {
  check_defined("transpose", {&x});
  const auto from = static_cast<std::size_t>(normalize_axis(a, x.rank(), "transpose"));
  const auto to = static_cast<std::size_t>(normalize_axis(b, x.rank(), "transpose"));
  if (from == to) return x;
  std::array<std::int8_t, kMaxRank> axes{0, 1, 2, 3, 4, 5};
  std::swap(axes[from], axes[to]);
  View view = x.view();
  std::swap(view.shape[from], view.shape[to]);
  std::swap(view.strides[from], view.strides[to]);
  return record<PermuteNode>(Tensor(x.storage(), view), {&x}, axes);
}

Tensor squeeze(const Tensor& x, int axis) {
  check_defined("squeeze", {&x});
  const int at = normalize_axis(axis, x.rank(), "squeeze");
  INGOT_CHECK(x.dim(at) == 1, DimensionMismatch("squeeze: axis " + std::to_string(axis) + " of shape " +
                                                to_string(x.shape()) + " has not size 1"));
  return reshape(x, x.shape().erase(at));
}

Tensor unsqueeze(const Tensor& x, int axis) {
  check_defined("unsqueeze", {&x});
  return reshape(x, x.shape().insert(normalize_axis(axis, x.rank() + 1, "unsqueeze"), 1));
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  check_defined("broadcast_to", {&x});
  if (x.shape() == shape) return x;
  INGOT_CHECK(x.rank() <= shape.rank() && broadcast_shapes(x.shape(), shape, "broadcast_to") == shape,
              ShapeMismatch("broadcast_to", shape.to_vector(), x.shape().to_vector()));
  return record<BroadcastNode>(Tensor(x.storage(), expanded(x.view(), shape)), {&x});
}

Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  check_defined("slice", {&x});
  const int at = normalize_axis(axis, x.rank(), "slice");
  INGOT_CHECK(step > 0, DimensionMismatch("slice: the step must be positive, got " + std::to_string(step)));
  const std::int64_t size = x.dim(at);
  const auto limited = [size](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t from = limited(start), to = std::max(limited(stop), from);
  step = std::min(step, std::max<std::int64_t>(size, 1));  // a longer one finds the first element alone, too
  return slice_of(x, at, from, (to - from + step - 1) / step, step);
}

Tensor narrow(const Tensor& x, int axis, std::int64_t start, std::int64_t length) {
  check_defined("narrow", {&x});
  const int at = normalize_axis(axis, x.rank(), "narrow");
  INGOT_CHECK(start >= 0 && length >= 0 && start <= x.dim(at) && length <= x.dim(at) - start,
              DimensionMismatch("narrow: elements [" + std::to_string(start) + ", " + std::to_string(start) +
                                " + " + std::to_string(length) + ") are not in axis " + std::to_string(axis) +
                                " of shape " + to_string(x.shape())));
  return slice_of(x, at, start, length, 1);
}

Tensor select(const Tensor& x, int axis, std::int64_t index) {
  check_defined("select", {&x});
  const int at = normalize_axis(axis, x.rank(), "select");
  const std::int64_t size = x.dim(at);
  INGOT_CHECK(index >= -size && index < size,
              DimensionMismatch("select: index " + std::to_string(index) + " is not in axis " +
                                std::to_string(axis) + " of shape " + to_string(x.shape())));
  return squeeze(slice_of(x, at, index < 0 ? index + size : index, 1, 1), at);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis) {
  check_defined("split", {&x});
  const int at = normalize_axis(axis, x.rank(), "split");
  std::int64_t start = 0;
  std::vector<Tensor> parts;
  for (const std::int64_t size : sizes) {
    INGOT_CHECK(size >= 0 && size <= x.dim(at) - start,
                ShapeMismatch("split", x.shape().to_vector(), sizes, "the sizes must add up to the axis"));
    parts.emplace_back(x.storage(), sliced(x.view(), at, size == 0 ? 0 : start, size));
    start += size;
  }
  INGOT_CHECK(start == x.dim(at),
              ShapeMismatch("split", x.shape().to_vector(), sizes, "the sizes must add up to the axis"));
  const Tensor* input = &x;
  record_all<SplitNode>(parts, std::span(&input, 1), at, sizes);
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis) {
  check_defined("chunk", {&x});
  const int at = normalize_axis(axis, x.rank(), "chunk");
  INGOT_CHECK(count > 0 && x.dim(at) % count == 0,
              DimensionMismatch("chunk: axis " + std::to_string(axis) + " of shape " + to_string(x.shape()) +
                                " cannot be cut into " + std::to_string(count) + " equal pieces"));
  return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), x.dim(at) / count), at);
}

Tensor concat(std::span<const Tensor> tensors, int axis) {
  INGOT_CHECK(!tensors.empty(), Error("concat: no tensors given"));
  const Tensor& first = tensors[0];
  const OpScope op_scope("concat", {&first});
  const int at = normalize_axis(axis, first.rank(), "concat");
  Shape shape = first.shape();
  shape[at] = 0;
  std::vector<const Tensor*> inputs;
  std::vector<std::int64_t> sizes;
  for (const Tensor& tensor : tensors) {
    check_defined("concat", {&first, &tensor});
    INGOT_CHECK(tensor.rank() == first.rank() && tensor.shape().with(at, 0) == shape.with(at, 0),
                ShapeMismatch("concat", first.shape().to_vector(), tensor.shape().to_vector(),
                              "all sizes but the axis' must agree"));
    shape[at] += tensor.dim(at);
    sizes.push_back(tensor.dim(at));
    inputs.push_back(&tensor);
  }
  Tensor y = Tensor::empty(shape, first.dtype(), first.device());
  std::int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    copy_into(tensor.view(), sliced(y.view(), at, start, tensor.dim(at)), false, current_stream(y.device()));
    start += tensor.dim(at);
  }
  record_all<ConcatNode>(std::span(&y, 1), inputs, at, std::move(sizes));
  return y;
}

Tensor stack(std::span<const Tensor> tensors, int axis) {
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    INGOT_CHECK(tensor.shape() == tensors[0].shape(),
                ShapeMismatch("stack", tensors[0].shape().to_vector(), tensor.shape().to_vector()));
    rows.push_back(unsqueeze(tensor, axis));
  }
  return concat(rows, axis);
}

}  // namespace ingot
