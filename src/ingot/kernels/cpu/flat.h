#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace ingot::kernels::cpu {

/// Blocks of `block` elements in a list of tensors; no block spans two of them. `count(tensor)` gives
/// elements.
template <class T, class Count>
std::int64_t count_blocks(std::span<const T> tensors, std::int64_t block, Count&& count) {
  std::int64_t blocks = 0;
  for (const T& tensor : tensors) blocks += (count(tensor) + block - 1) / block;
  return blocks;
}

/// Calls body(tensor, first element, end element) for the runs of elements that the blocks [begin, end) of
/// the list cover: how one parallel loop serves many tensors of any size.
template <class T, class Count, class Body>
void for_each_piece(std::span<const T> tensors, std::int64_t block, std::int64_t begin, std::int64_t end,
                    Count&& count, Body&& body) {
  std::int64_t first = 0;  // number of the tensor's first block
  for (const T& tensor : tensors) {
    if (first >= end) return;
    const std::int64_t n = count(tensor), blocks = (n + block - 1) / block;
    const std::int64_t from = std::max(begin - first, std::int64_t{0}), to = std::min(end - first, blocks);
    if (from < to) body(tensor, from * block, std::min(to * block, n));
    first += blocks;
  }
}

}  // namespace ingot::kernels::cpu
