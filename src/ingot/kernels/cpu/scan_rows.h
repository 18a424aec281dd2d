#pragma once

#include <algorithm>
#include <cstdint>

#include "ingot/base/parallel.h"
#include "ingot/kernels/kernel.h"

namespace ingot::kernels::cpu {

/// Where the operands of one head of one sequence are.
struct ScanHead {
  std::int64_t b, h, group, steps, heads, groups, size, width;  ///< size: P, width: N
  ScanHead(const View& x, const View& keys, std::int64_t index)
      : b(index / x.dim(2)),
        h(index % x.dim(2)),
        group(h * keys.dim(2) / x.dim(2)),
        steps(x.dim(1)),
        heads(x.dim(2)),
        groups(keys.dim(2)),
        size(x.dim(3)),
        width(keys.dim(3)) {}
  /// Of step t: the index of decay, the first elements of x, of keys and of the gradients of keys.
  std::int64_t step(std::int64_t t) const { return (b * steps + t) * heads + h; }
  std::int64_t x(std::int64_t t) const { return step(t) * size; }
  std::int64_t keys(std::int64_t t) const { return ((b * steps + t) * groups + group) * width; }
  std::int64_t dkeys(std::int64_t t) const { return step(t) * width; }
  std::int64_t state() const { return (b * heads + h) * size * width; }
  /// Whether nothing before step t counts for it.
  bool begins(const View& starts, std::int64_t t) const {
    return starts && static_cast<std::int64_t>(starts.as<std::int32_t>()[b * steps + t]) == t;
  }
};

/// Calls f for each head of each sequence, one after another.
template <class F>
void for_scan_heads(const View& x, const View& keys, F&& f) {
  for (std::int64_t i = 0; i < x.dim(0) * x.dim(2); ++i) f(ScanHead(x, keys, i));
}

/// The same, in parallel; a thread has at least `grain` multiply-adds to do.
template <class F>
void parallel_scan_heads(const View& x, const View& keys, std::int64_t grain, F&& f) {
  const std::int64_t products = x.dim(1) * x.dim(3) * keys.dim(3);
  parallel_for(x.dim(0) * x.dim(2), 1 + grain / (products + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(ScanHead(x, keys, i));
  });
}

/// Calls f(head, first, last) for rows [first, last) of each head's state, in parallel.
template <class F>
void parallel_scan_rows(const View& x, const View& keys, std::int64_t grain, F&& f) {
  constexpr std::int64_t kRows = 16;  // few heads keep many threads busy, too
  const std::int64_t size = x.dim(3), parts = (size + kRows - 1) / kRows;
  const std::int64_t products = x.dim(1) * std::min(size, kRows) * keys.dim(3);
  parallel_for(x.dim(0) * x.dim(2) * parts, 1 + grain / (products + 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t first = i % parts * kRows;
                   f(ScanHead(x, keys, i / parts), first, std::min(first + kRows, size));
                 }
               });
}

}  // namespace ingot::kernels::cpu
