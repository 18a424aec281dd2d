#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/rearrange.h"
#include "ingot/onnx/text_cast.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Other shapes, orders and types of the same elements.

namespace ingot::onnx {
namespace {

Values identity(const OpCall& call) { return {call.has(0) ? call.value_in(0) : Value()}; }

Values shape_of(const OpCall& call) {
  const std::vector<std::int64_t> dims = call.in(0).shape().to_vector();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto limit = [&](std::int64_t i) { return std::clamp(i < 0 ? i + rank : i, std::int64_t{0}, rank); };
  const std::int64_t start = limit(call.integer("start", 0)), end = limit(call.integer("end", rank));
  const std::vector<std::int64_t> part(dims.begin() + start, dims.begin() + std::max(start, end));
  return {Tensor::from(part, {static_cast<std::int64_t>(part.size())})};
}

Values size_of(const OpCall& call) {
  return {Tensor::from(std::vector<std::int64_t>{call.in(0).numel()}, {})};
}

Values reshaped(const OpCall& call) {
  const Tensor& x = call.in(0);
  std::vector<std::int64_t> dims = call.opset() < 5 ? call.integers("shape") : call.integers_in(1);
  const bool zero_is_zero = call.integer("allowzero", 0) != 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 0 || zero_is_zero) continue;
    INGOT_CHECK(static_cast<int>(i) < x.rank(),
                DimensionMismatch(call.where() + ": copies an axis that is not there"));
    dims[i] = x.dim(static_cast<int>(i));
  }
  std::int64_t known = 1;
  for (const std::int64_t size : dims) known = checked_mul(known, size == -1 ? 1 : size, "Reshape");
  for (std::int64_t& size : dims) {
    if (size == -1) size = known == 0 ? 0 : x.numel() / known;
  }
  const Shape shape = to_shape(dims);
  INGOT_CHECK(shape.numel() == x.numel(),
              ShapeMismatch(call.where(), x.shape().to_vector(), dims, "as many elements"));
  return {reshape(x, shape)};
}

Values flattened(const OpCall& call) {
  const Tensor& x = call.in(0);
  const std::int64_t given = call.integer("axis", 1);
  const int axis = given == x.rank() ? x.rank() : call.axis_of(given, x.rank());
  std::int64_t rows = 1, columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x.dim(i);
  return {reshape(x, Shape{rows, columns})};
}

/// Given axes of a tensor of `rank`, counted from its front and in order.
std::vector<int> sorted_axes(const OpCall& call, const std::vector<std::int64_t>& given, int rank) {
  std::vector<int> axes = call.axes_of(given, rank);
  std::ranges::sort(axes);
  INGOT_CHECK(std::ranges::adjacent_find(axes) == axes.end(),
              DimensionMismatch(call.where() + ": an axis is given twice"));
  return axes;
}

Values squeezed(const OpCall& call) {
  Tensor x = call.in(0);
  const std::vector<std::int64_t> given = call.axes(1, 13);
  std::vector<int> axes = sorted_axes(call, given, x.rank());
  if (given.empty()) {
    for (int i = 0; i < x.rank(); ++i) {
      if (x.dim(i) == 1) axes.push_back(i);
    }
  }
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) x = squeeze(x, *axis);
  return {x};
}

Values unsqueezed(const OpCall& call) {
  Tensor x = call.in(0);
  const std::vector<std::int64_t> given = call.axes(1, 13);
  INGOT_CHECK(given.size() <= static_cast<std::size_t>(kMaxRank - x.rank()),
              DimensionMismatch(call.where() + ": more than " + std::to_string(kMaxRank) + " axes"));
  for (const int axis : sorted_axes(call, given, x.rank() + static_cast<int>(given.size())))
    x = unsqueeze(x, axis);
  return {x};
}

Values transposed(const OpCall& call) {
  const Tensor& x = call.in(0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  return {permute(x, call.axes_of(call.integers("perm", order), x.rank()))};
}

Values concatenated(const OpCall& call) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < call.input_count(); ++i) tensors.push_back(call.in(i));
  INGOT_CHECK(!tensors.empty(), FormatError(call.where(), -1, "input", "is missing"));
  const int axis = call.axis("axis", 0, tensors[0].rank());
  return {tensors.size() == 1 ? tensors[0] : concat(tensors, axis)};
}

Values pieces(const OpCall& call) {
  const Tensor& x = call.in(0);
  const int axis = call.axis("axis", 0, x.rank());
  std::vector<std::int64_t> sizes = call.opset() < 13 ? call.integers("split")
                                    : call.has(1)     ? call.integers_in(1)
                                                      : std::vector<std::int64_t>{};
  if (sizes.empty()) {
    const auto count = call.integer("num_outputs", static_cast<std::int64_t>(call.output_count()));
    INGOT_CHECK(
        count > 0 && count <= static_cast<std::int64_t>(call.output_count()),
        FormatError(call.where(), -1, "num_outputs",
                    std::to_string(count) + " of " + std::to_string(call.output_count()) + " outputs"));
    const std::int64_t each = (x.dim(axis) + count - 1) / count;
    std::int64_t left = x.dim(axis);
    for (std::int64_t i = 0; i < count; ++i) {
      sizes.push_back(std::min(each, left));
      left -= sizes.back();
    }
  }
  Values parts;
  for (const Tensor& part : split(x, sizes, axis)) parts.emplace_back(part, call.value_in(0).type);
  return parts;
}

/// Positions start, start + step, ... before end, which count from the back where they are negative and are
/// limited to the axis. Backwards they are copied.
Tensor sliced_axis(const Tensor& x, int axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t size = x.dim(axis);
  const auto limited = [&](std::int64_t at, std::int64_t least) {
    if (at < 0) at = at < -size ? -1 : at + size;  // far before the first element stays before it
    return std::clamp(at, least, std::max(least, step > 0 ? size : size - 1));
  };
  start = limited(start, 0);  // backwards, too: what begins before the first element begins at it
  end = limited(end, step > 0 ? 0 : -1);
  const std::int64_t span = step > 0 ? end - start : start - end;
  const std::int64_t least =
      -std::max<std::int64_t>(size, 1);  // a longer step finds the first element alone, too
  step = std::clamp(step, least, -least);
  const std::int64_t count = span <= 0 ? 0 : (span + std::abs(step) - 1) / std::abs(step);
  if (count == 0 || size == 0) return narrow(x, axis, 0, 0);
  if (step > 0) return slice(x, axis, start, start + (count - 1) * step + 1, step);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < count; ++i) positions.push_back(start + i * step);
  return pick(x, axis, positions);
}

Values sliced(const OpCall& call) {
  Tensor x = call.in(0);
  const bool inputs = call.opset() >= 10;
  const std::vector<std::int64_t> starts = inputs ? call.integers_in(1) : call.integers("starts");
  const std::vector<std::int64_t> ends = inputs ? call.integers_in(2) : call.integers("ends");
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs ? call.has(3) : call.has_attribute("axes"))
    axes = inputs ? call.integers_in(3) : call.integers("axes");
  const std::vector<std::int64_t> steps =
      inputs && call.has(4) ? call.integers_in(4) : std::vector<std::int64_t>(starts.size(), 1);
  INGOT_CHECK(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
              FormatError(call.where(), -1, "starts", "ends, axes and steps differ in number"));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = call.axis_of(axes[i], x.rank());
    INGOT_CHECK(steps[i] != 0, FormatError(call.where(), -1, "steps", "is 0"));
    x = sliced_axis(x, axis, starts[i], ends[i], steps[i]);
  }
  return {x};
}

Values expanded_to(const OpCall& call) {
  const Tensor& x = call.in(0);
  return {broadcast_to(x, broadcast_shapes(x.shape(), to_shape(call.integers_in(1)), "Expand"))};
}

Values tiled(const OpCall& call) {
  const Tensor& x = call.in(0);
  const std::vector<std::int64_t> repeats = call.integers_in(1);
  INGOT_CHECK(static_cast<int>(repeats.size()) == x.rank(),
              DimensionMismatch(call.where() + ": one repeat for each axis"));
  return {tile(x, repeats)};
}

/// Where an element outside of an axis comes from.
std::int64_t at_edge(std::int64_t position, std::int64_t size) {
  return std::clamp(position, std::int64_t{0}, size - 1);
}
std::int64_t mirrored(std::int64_t position, std::int64_t size) {
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1), at = (position % period + period) % period;
  return at < size ? at : period - at;
}
std::int64_t wrapped(std::int64_t position, std::int64_t size) { return (position % size + size) % size; }

Values padded(const OpCall& call) {
  const Tensor& x = call.in(0);
  const auto rank = static_cast<std::size_t>(x.rank());
  const std::vector<std::int64_t> given = call.opset() < 11 ? call.integers("pads") : call.integers_in(1);
  Padding padding{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0)};
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.integers_in(3);
  INGOT_CHECK(given.size() == 2 * axes.size(),
              FormatError(call.where(), -1, "pads", "takes two numbers for each axis"));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(call.axis_of(axes[i], x.rank()));
    padding.before[axis] = given[i];
    padding.after[axis] = given[i + axes.size()];
  }
  const std::string mode = call.text("mode", "constant");
  if (mode == "constant") {
    Tensor fill = call.optional(2);
    if (call.opset() < 11) fill = to(Tensor::scalar(call.number("value", 0)), x.dtype());
    return {pad_with(x, padding, fill)};
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") call.refuse("mode " + mode);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t cut = checked_add(std::min<std::int64_t>(0, padding.before[i]),
                                         std::min<std::int64_t>(0, padding.after[i]), "Pad"),
                       kept = checked_add(x.dim(static_cast<int>(i)), cut, "Pad");
    INGOT_CHECK(kept > 0 || (padding.before[i] <= 0 && padding.after[i] <= 0),
                DimensionMismatch(call.where() + ": an axis has nothing to repeat"));
  }
  return {pad_from(x, padding, [&](std::int64_t position, std::int64_t size) {
    return mode == "edge"   ? at_edge(position, size)
           : mode == "wrap" ? wrapped(position, size)
                            : mirrored(position, size);
  })};
}

Values cast_as(const OpCall& call, const StoredType& type) {
  call.in(0);  // which a sequence is not
  const Value& x = call.value_in(0);
  if ((x.type == ElementType::text) != (type.element == ElementType::text))
    return {cast_text(x, type, call.texts())};
  return {converted_to(x, type, call.integer("saturate", 1) != 0)};
}
Values cast_to(const OpCall& call) { return cast_as(call, call.stored_type("to", 0)); }
Values cast_like(const OpCall& call) { return cast_as(call, call.type(1)); }
Values bit_cast(const OpCall& call) { return {bits_as(call.value_in(0), call.stored_type("to", 0))}; }

/// [N, C, H, W] with blocks of channels as positions, or back.
Values depth_to_space(const OpCall& call) {
  const Tensor& x = call.in(0, 4, 4);
  const std::int64_t b = call.integer("blocksize", 1), n = x.dim(0), c = x.dim(1), h = x.dim(2), w = x.dim(3);
  INGOT_CHECK(b > 0 && c % checked_mul(b, b, "DepthToSpace") == 0,
              DimensionMismatch(call.where() + ": the blocks do not divide the channels"));
  const bool column_first = call.text("mode", "DCR") == "CRD";
  const Tensor blocks = column_first ? permute(reshape(x, {n, c / (b * b), b, b, h, w}), {0, 1, 4, 2, 5, 3})
                                     : permute(reshape(x, {n, b, b, c / (b * b), h, w}), {0, 3, 4, 1, 5, 2});
  return {reshape(blocks, {n, c / (b * b), h * b, w * b})};
}
Values space_to_depth(const OpCall& call) {
  const Tensor& x = call.in(0, 4, 4);
  const std::int64_t b = call.integer("blocksize", 1), n = x.dim(0), c = x.dim(1), h = x.dim(2), w = x.dim(3);
  INGOT_CHECK(b > 0 && h % b == 0 && w % b == 0,
              DimensionMismatch(call.where() + ": the blocks do not divide the image"));
  const Tensor parts = reshape(x, {n, c, h / b, b, w / b, b});
  const bool channel_first = call.text("mode", "DCR") == "CRD";
  const Tensor blocks =
      channel_first ? permute(parts, {0, 1, 3, 5, 2, 4}) : permute(parts, {0, 3, 5, 1, 2, 4});
  return {reshape(blocks, {n, c * b * b, h / b, w / b})};
}

/// As many positions as `shape` says, from the middle or with zeros around.
Values center_crop_pad(const OpCall& call) {
  Tensor x = call.in(0);
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  axes = call.integers("axes", axes);
  const std::vector<std::int64_t> sizes = call.integers_in(1);
  INGOT_CHECK(sizes.size() == axes.size(), DimensionMismatch(call.where() + ": a size for each axis"));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis_of(axes[i], x.rank());
    const std::int64_t missing = checked_sub(sizes[i], x.dim(axis), "CenterCropPad");
    INGOT_CHECK(sizes[i] >= 0, DimensionMismatch(call.where() + ": a size is negative"));
    if (missing < 0) {
      x = narrow(x, axis, -missing / 2, sizes[i]);
      continue;
    }
    Padding padding{std::vector<std::int64_t>(static_cast<std::size_t>(x.rank()), 0), {}};
    padding.after = padding.before;
    padding.before[static_cast<std::size_t>(axis)] = missing / 2;
    padding.after[static_cast<std::size_t>(axis)] = missing - missing / 2;
    x = pad_with(x, padding);
  }
  return {contiguous(x)};
}

/// In inference nothing is dropped; the mask says what stays.
Values dropout(const OpCall& call) {
  const Tensor& x = call.in(0);
  const bool trains = call.has(2) && call.number_in(2) != 0;
  const double ratio = call.has(1) ? call.number_in(1) : 0.5;
  if (!trains || ratio == 0) return {x, broadcast_to(to(Tensor::scalar(1), DType::boolean), x.shape())};
  INGOT_CHECK(ratio > 0 && ratio < 1, FormatError(call.where(), -1, "ratio", std::to_string(ratio)));
  Rng rng(call.random_key());
  std::vector<double> values = as_doubles(x), kept(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    kept[i] = rng.uniform_double() < ratio ? 0 : 1;
    values[i] *= kept[i] / (1 - ratio);
  }
  return {from_doubles(values, x.shape(), x.dtype()), from_doubles(kept, x.shape(), DType::boolean)};
}

constexpr std::array kShapeOps = {OpRow{"BitCast", bit_cast, 0, kOwnTypes},
                                  OpRow{"Cast", cast_to, 1, kOwnTypes},
                                  OpRow{"CastLike", cast_like, 1, kOwnTypes},
                                  OpRow{"CenterCropPad", center_crop_pad, 1, 0},
                                  OpRow{"Concat", concatenated, kEveryInput, 0},
                                  OpRow{"DepthToSpace", depth_to_space, 1, 0},
                                  OpRow{"Dropout", dropout, 1},
                                  OpRow{"Expand", expanded_to, 1, 0},
                                  OpRow{"Flatten", flattened, 1, 0},
                                  OpRow{"Identity", identity, kOnlyShapes, kOwnTypes},
                                  OpRow{"Pad", padded, 1, 0},
                                  OpRow{"Reshape", reshaped, 1, 0},
                                  OpRow{"Shape", shape_of, kOnlyShapes, kOwnTypes},
                                  OpRow{"Size", size_of, kOnlyShapes, kOwnTypes},
                                  OpRow{"Slice", sliced, 1, 0},
                                  OpRow{"SpaceToDepth", space_to_depth, 1, 0},
                                  OpRow{"Split", pieces, 1, kOwnTypes},
                                  OpRow{"Squeeze", squeezed, 1, 0},
                                  OpRow{"Tile", tiled, 1, 0},
                                  OpRow{"Transpose", transposed, 1, 0},
                                  OpRow{"Unsqueeze", unsqueezed, 1, 0}};

}  // namespace

std::span<const OpRow> shape_ops() { return kShapeOps; }

}  // namespace ingot::onnx
