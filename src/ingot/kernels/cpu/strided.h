#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ingot/core/view.h"

namespace ingot::kernels::cpu {

/// Walks views of one shape together, row by row: calls body(offsets, n, strides) for each run along the
/// innermost axis, with the element offset of each view and its innermost stride. Adjacent axes are merged
/// first where every view allows it, so contiguous views are a single run.
template <std::size_t N, class Body>
void for_each_run(const std::array<View, N>& views, Body&& body) {
  struct Axis {
    std::int64_t size;
    std::array<std::int64_t, N> strides;
  };
  std::array<Axis, kMaxViewRank + 1> axes{};
  int rank = 0;
  for (int i = 0; i < views[0].rank; ++i) {
    const std::int64_t size = views[0].dim(i);
    if (size == 0) return;
    if (size == 1) continue;
    Axis axis{size, {}};
    for (std::size_t v = 0; v < N; ++v) axis.strides[v] = views[v].stride(i);
    bool merges = rank > 0;
    for (std::size_t v = 0; merges && v < N; ++v) {
      merges = axes[static_cast<std::size_t>(rank - 1)].strides[v] == axis.strides[v] * size;
    }
    if (merges) {
      axis.size *= axes[static_cast<std::size_t>(rank - 1)].size;
      axes[static_cast<std::size_t>(rank - 1)] = axis;
    } else {
      axes[static_cast<std::size_t>(rank++)] = axis;
    }
  }
  if (rank == 0) axes[static_cast<std::size_t>(rank++)] = {1, {}};
  const Axis& inner = axes[static_cast<std::size_t>(rank - 1)];
  std::array<std::int64_t, kMaxViewRank + 1> index{};
  std::array<std::int64_t, N> offsets{};
  while (true) {
    body(offsets, inner.size, inner.strides);
    int i = rank - 2;
    for (; i >= 0; --i) {
      const Axis& axis = axes[static_cast<std::size_t>(i)];
      std::int64_t& at = index[static_cast<std::size_t>(i)];
      for (std::size_t v = 0; v < N; ++v) offsets[v] += axis.strides[v];
      if (++at < axis.size) break;
      for (std::size_t v = 0; v < N; ++v) offsets[v] -= axis.strides[v] * axis.size;
      at = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace ingot::kernels::cpu
