#include "ingot/onnx/rearrange.h"

#include <algorithm>

#include "ingot/base/error.h"
#include "ingot/core/checked.h"
#include "ingot/onnx/host.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot::onnx {
namespace {

/// A result with what is inside of the padding, and what of x goes there.
struct Padded {
  Tensor result, inside, kept;
};

Padded padded_result(const Tensor& x, const Padding& padding) {
  std::vector<std::int64_t> dims = x.shape().to_vector();
  Padded padded{.result = {}, .inside = {}, .kept = x};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t first = checked_sub(0, std::min<std::int64_t>(0, padding.before[i]), "Pad"),
                       last = checked_sub(0, std::min<std::int64_t>(0, padding.after[i]), "Pad");
    dims[i] = checked_add(dims[i], checked_add(padding.before[i], padding.after[i], "Pad"), "Pad");
    if (first > 0 || last > 0) {
      padded.kept =
          narrow(padded.kept, axis, first, checked_sub(x.dim(axis), checked_add(first, last, "Pad"), "Pad"));
    }
  }
  padded.inside = padded.result = Tensor::empty(to_shape(dims), x.dtype(), x.device());
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t first = std::max<std::int64_t>(0, padding.before[static_cast<std::size_t>(axis)]);
    padded.inside = narrow(padded.inside, axis, first, padded.kept.dim(axis));
  }
  return padded;
}

}  // namespace

Tensor pad_with(const Tensor& x, const Padding& padding, const Tensor& fill) {
  const Padded padded = padded_result(x, padding);
  const Tensor value = fill.defined() ? to(fill, x.device()) : Tensor::zeros({1}, x.dtype(), x.device());
  copy_(padded.result, broadcast_to(reshape(value, Shape{}), padded.result.shape()));
  copy_(padded.inside, padded.kept);
  return padded.result;
}

Tensor pad_from(const Tensor& x, const Padding& padding,
                FunctionRef<std::int64_t(std::int64_t, std::int64_t)> source) {
  const Padded padded = padded_result(x, padding);
  copy_(padded.inside, padded.kept);
  // The last axis first: on the others whole rows are copied then, with what is around them. `whole` is the
  // result with the axes before this one still inside of their padding.
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t size = padded.kept.dim(axis), before = std::max<std::int64_t>(0, padding.before[i]),
                       after = std::max<std::int64_t>(0, padding.after[i]);
    Tensor whole = padded.result;
    for (int outer = 0; outer < axis; ++outer) {
      whole = narrow(whole, outer, std::max<std::int64_t>(0, padding.before[static_cast<std::size_t>(outer)]),
                     padded.kept.dim(outer));
    }
    const auto border = [&](std::int64_t first, std::int64_t count) {
      std::vector<std::int64_t> positions;
      for (std::int64_t k = first; k < first + count; ++k)
        positions.push_back(before + source(k - before, size));
      if (count > 0) copy_(narrow(whole, axis, first, count), pick(whole, axis, positions));
    };
    border(0, before);
    border(before + size, after);
  }
  return padded.result;
}

Tensor pick(const Tensor& x, int axis, const std::vector<std::int64_t>& positions) {
  const auto count = static_cast<std::int64_t>(positions.size());
  return index_select_within(x, axis, Tensor::from(positions, {count}, x.device()));
}

Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats) {
  std::vector<std::int64_t> dims = x.shape().to_vector();
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = checked_mul(dims[i], repeats[i], "Tile");
  const Shape shape = to_shape(dims);
  if (shape.numel() == 0) return Tensor::empty(shape, x.dtype(), x.device());
  Tensor tiled = x;
  std::int64_t outer = x.numel();  // of the axes in front of one, counting down
  for (std::size_t i = dims.size(); i-- > 0;) {
    outer /= x.dim(static_cast<int>(i));
    if (repeats[i] == 1) continue;
    const std::int64_t inner = tiled.numel() / outer;
    tiled = contiguous(broadcast_to(reshape(tiled, {outer, 1, inner}), {outer, repeats[i], inner}));
  }
  return reshape(tiled, shape);
}

Tensor repeat_each(const Tensor& x, const std::vector<std::int64_t>& repeats) {
  std::vector<std::int64_t> one, many, dims;  // an axis of its own for each repetition; the rest in one piece
  std::int64_t piece = 1;
  std::size_t last = 0;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const std::int64_t size = x.dim(static_cast<int>(i));
    piece *= size;
    dims.push_back(checked_mul(size, repeats[i], "Resize"));
    if (repeats[i] == 1) continue;
    one.insert(one.end(), {piece, 1});
    many.insert(many.end(), {piece, repeats[i]});
    piece = 1;
    last = i;
  }
  if (one.empty()) return x;
  one.push_back(piece);
  many.push_back(piece);
  if (one.size() > static_cast<std::size_t>(kMaxRank)) {  // the last of them apart
    std::vector<std::int64_t> alone(repeats.size(), 1), others = repeats;
    std::swap(alone[last], others[last]);
    return repeat_each(repeat_each(x, alone), others);
  }
  return reshape(contiguous(broadcast_to(reshape(x, to_shape(one)), to_shape(many))), to_shape(dims));
}

}  // namespace ingot::onnx
