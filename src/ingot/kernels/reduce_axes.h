#pragma once

#include <algorithm>

#include "ingot/kernels/reduce.h"
#include "ingot/kernels/strided_iterator.h"

namespace ingot::kernels {

/// A reduction's axes, merged and sorted: `x_kept` and `y` walk the results, `x_reduced` what belongs to one.
struct ReduceAxes {
  View x_kept, y, x_reduced;
  bool inner_is_reduced = true;

  ReduceAxes(const View& x, const View& to) : x_kept(x), y(to), x_reduced(x) {
    const StridedIterator<2> runs({x, to});
    x_kept.rank = y.rank = x_reduced.rank = 0;
    for (int i = 0; i < runs.rank(); ++i) {
      const bool reduced = runs.stride(i, 1) == 0;
      inner_is_reduced = reduced;
      if (reduced) {
        append(x_reduced, runs.size(i), runs.stride(i, 0));
      } else {
        append(x_kept, runs.size(i), runs.stride(i, 0));
        append(y, runs.size(i), runs.stride(i, 1));
      }
    }
  }

  explicit ReduceAxes(const ReduceArgs& args) : ReduceAxes(args.x, args.y) {}

  /// In how many parts a GPU reduces what belongs to one result. The shape alone tells, so that sums do not
  /// depend on the GPU: enough for a large one, none of them short.
  std::int64_t parts() const {
    const std::int64_t results = x_kept.numel(), reduced = x_reduced.numel();
    if (results == 0 || reduced == 0) return 1;
    const auto shares = [](std::int64_t total, std::int64_t each) { return (total + each - 1) / each; };
    if (inner_is_reduced) return std::clamp<std::int64_t>(4096 / results, 1, shares(reduced, 4096));
    return std::clamp<std::int64_t>(1024 / shares(results, 256), 1, shares(reduced, 64));
  }

 private:
  static void append(View& view, std::int64_t size, std::int64_t stride) {
    view.shape[static_cast<std::size_t>(view.rank)] = size;
    view.strides[static_cast<std::size_t>(view.rank++)] = stride;
  }
};

/// How many partial results a GPU keeps while it reduces x to y; 0 where it needs no second step.
inline std::int64_t reduce_partials(const View& x, const View& y) {
  const ReduceAxes axes(x, y);
  const std::int64_t parts = axes.parts();
  return parts == 1 ? 0 : parts * axes.x_kept.numel();
}

}  // namespace ingot::kernels
