#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ingot/core/view.h"

namespace ingot::kernels {

/// Views of one shape, walked together. Adjacent axes are merged where every view allows it, so contiguous
/// views are a single run along the innermost axis. An absent view counts as one of stride 0.
template <std::size_t N>
class StridedIterator {
 public:
  explicit StridedIterator(const std::array<View, N>& views) {
    const View& shape = *std::ranges::find_if(views, [](const View& v) { return static_cast<bool>(v); });
    for (int i = 0; i < shape.rank; ++i) {
      const std::int64_t size = shape.dim(i);
      total_ *= size;
      if (size == 1) continue;
      Axis axis{size, {}};
      for (std::size_t v = 0; v < N; ++v) axis.strides[v] = views[v] ? views[v].stride(i) : 0;
      push(axis);
    }
    if (rank_ == 0) axes_[static_cast<std::size_t>(rank_++)] = {1, {}};
  }

  /// Number of elements.
  std::int64_t total() const { return total_; }
  /// Length of a run.
  std::int64_t inner() const { return last().size; }

  /// The merged axes, outermost first.
  int rank() const { return rank_; }
  std::int64_t size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  std::int64_t stride(int axis, std::size_t view) const {
    return axes_[static_cast<std::size_t>(axis)].strides[view];
  }

  /// Calls body(offsets, n, strides) for each run, or part of one, of the elements [begin, end) in row-major
  /// order, with the element offset of each view and its innermost stride.
  template <class Body>
  void walk(std::int64_t begin, std::int64_t end, Body&& body) const {
    if (begin >= end) return;
    std::array<std::int64_t, kMaxViewRank + 1> index{};
    std::array<std::int64_t, N> offsets{};
    std::int64_t row = begin / inner(), column = begin % inner();
    for (int i = rank_ - 2; i >= 0 && row > 0; --i) {
      const Axis& axis = axes_[static_cast<std::size_t>(i)];
      index[static_cast<std::size_t>(i)] = row % axis.size;
      for (std::size_t v = 0; v < N; ++v) offsets[v] += row % axis.size * axis.strides[v];
      row /= axis.size;
    }
    while (true) {
      const std::int64_t n = std::min(inner() - column, end - begin);
      auto first = offsets;
      for (std::size_t v = 0; v < N; ++v) first[v] += column * last().strides[v];
      body(first, n, last().strides);
      begin += n;
      if (begin >= end) return;
      column = 0;
      advance(index, offsets);
    }
  }

 private:
  struct Axis {
    std::int64_t size;
    std::array<std::int64_t, N> strides;
  };

  const Axis& last() const { return axes_[static_cast<std::size_t>(rank_ - 1)]; }

  void push(Axis axis) {
    if (rank_ > 0) {
      const Axis& outer = last();
      bool merges = true;
      for (std::size_t v = 0; merges && v < N; ++v) merges = outer.strides[v] == axis.strides[v] * axis.size;
      if (merges) {
        axis.size *= outer.size;
        --rank_;
      }
    }
    axes_[static_cast<std::size_t>(rank_++)] = axis;
  }

  void advance(std::array<std::int64_t, kMaxViewRank + 1>& index,
               std::array<std::int64_t, N>& offsets) const {
    for (int i = rank_ - 2; i >= 0; --i) {
      const Axis& axis = axes_[static_cast<std::size_t>(i)];
      std::int64_t& at = index[static_cast<std::size_t>(i)];
      for (std::size_t v = 0; v < N; ++v) offsets[v] += axis.strides[v];
      if (++at < axis.size) return;
      for (std::size_t v = 0; v < N; ++v) offsets[v] -= axis.strides[v] * axis.size;
      at = 0;
    }
  }

  std::array<Axis, kMaxViewRank + 1> axes_;
  int rank_ = 0;
  std::int64_t total_ = 1;
};

}  // namespace ingot::kernels
