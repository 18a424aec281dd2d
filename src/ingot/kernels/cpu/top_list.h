#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ingot/kernels/cpu/numeric.h"

namespace ingot::kernels::cpu {

/// The positions of the `k` largest elements of a row so far, largest first; of equals the first comes first.
/// A NaN counts as the smallest.
template <class T>
class TopList {
 public:
  TopList(const T* row, std::int64_t* positions, std::int64_t k) : row_(row), positions_(positions), k_(k) {}

  bool is_full() const { return held_ == k_; }
  /// What an element must exceed to come in, once the list is full.
  Accumulator<T> threshold() const { return value(positions_[k_ - 1]); }
  /// Takes element i in where it belongs; to be called in order of i.
  void offer(std::int64_t i) {
    if (is_full() && value(i) <= threshold()) return;
    std::int64_t at = is_full() ? k_ - 1 : held_++;
    for (; at > 0 && value(positions_[at - 1]) < value(i); --at) positions_[at] = positions_[at - 1];
    positions_[at] = i;
  }

 private:
  Accumulator<T> value(std::int64_t i) const {
    const Accumulator<T> v = load(row_ + i);
    return std::isnan(v) ? -std::numeric_limits<Accumulator<T>>::infinity() : v;
  }

  const T* row_;
  std::int64_t* positions_;
  std::int64_t k_, held_ = 0;
};

}  // namespace ingot::kernels::cpu
