#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ingot/dist/communicator.h"

namespace ingot {

/// Rows of which each rank has some: all ranks get all of them, in the order of their keys, no two of which
/// are equal. All ranks call the same.
class GatheredRows {
 public:
  /// `keys`: of this rank's rows.
  GatheredRows(dist::Communicator& ranks, std::vector<std::uint64_t> keys)
      : ranks_(ranks), counts_(static_cast<std::size_t>(ranks.size())) {
    const std::size_t own = keys.size();
    ranks.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(counts_)));
    keys = together(keys, 1);
    order_.resize(keys.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, {}, [&](std::size_t row) { return keys[row]; });
  }

  /// `rows`: this rank's, of `width` values each; then those of all.
  template <class T>
  void gather(std::vector<T>& rows, std::size_t width) const {
    const std::vector<T> all = together(rows, width);
    rows.resize(all.size());
    for (std::size_t i = 0; i < order_.size(); ++i)
      std::copy_n(all.data() + order_[i] * width, width, rows.data() + i * width);
  }

 private:
  // One rank's behind the other's.
  template <class T>
  std::vector<T> together(const std::vector<T>& rows, std::size_t width) const {
    std::vector<dist::Slice> slices;
    slices.reserve(counts_.size());
    std::size_t at = 0;
    for (const std::size_t count : counts_) {
      slices.push_back({at, at + count * width * sizeof(T)});
      at = slices.back().end;
    }
    std::vector<T> all(at / sizeof(T));
    const std::size_t first = slices[static_cast<std::size_t>(ranks_.rank())].begin / sizeof(T);
    std::copy(rows.begin(), rows.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
    ranks_.all_gather(std::as_writable_bytes(std::span(all)), slices);
    return all;
  }

  dist::Communicator& ranks_;
  std::vector<std::size_t> counts_;  // of rows, by rank
  std::vector<std::size_t> order_;   // of the rows of all ranks
};

}  // namespace ingot
