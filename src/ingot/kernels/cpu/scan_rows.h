#pragma once

#include <cstdint>

#include "ingot/kernels/selective_scan.h"

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

}  // namespace ingot::kernels::cpu
