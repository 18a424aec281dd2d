#pragma once

#include <array>
#include <cstdint>

#include "ingot/base/parallel.h"
#include "ingot/kernels/strided_iterator.h"

namespace ingot::kernels::cpu {

/// Walks views of one shape on the calling thread; see Runs.
template <std::size_t N, class Body>
void for_each_run(const std::array<View, N>& views, Body&& body) {
  const StridedIterator<N> runs(views);
  runs.walk(0, runs.total(), body);
}

/// The same on several threads, each with at least `grain` elements.
template <std::size_t N, class Body>
void parallel_runs(const std::array<View, N>& views, std::int64_t grain, Body&& body) {
  const StridedIterator<N> runs(views);
  if (runs.total() <= grain) {
    runs.walk(0, runs.total(), body);
    return;
  }
  parallel_for(runs.total(), grain,
               [&](std::int64_t begin, std::int64_t end) { runs.walk(begin, end, body); });
}

}  // namespace ingot::kernels::cpu
