#pragma once

#include "ingot/kernels/reduce.h"
#include "ingot/kernels/runs.h"

namespace ingot::kernels {

/// A reduction's axes, merged and sorted: `x_kept` and `y` walk the results, `x_reduced` what belongs to one.
struct ReduceAxes {
  View x_kept, y, x_reduced;
  bool inner_is_reduced = true;

  explicit ReduceAxes(const ReduceArgs& args) : x_kept(args.x), y(args.y), x_reduced(args.x) {
    const Runs<2> runs({args.x, args.y});
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

 private:
  static void append(View& view, std::int64_t size, std::int64_t stride) {
    view.shape[static_cast<std::size_t>(view.rank)] = size;
    view.strides[static_cast<std::size_t>(view.rank++)] = stride;
  }
};

}  // namespace ingot::kernels
