#pragma once

#include "ingot/kernels/cuda/row_packs.h"
#include "ingot/kernels/cuda/tensor_core.h"

// Rows that registers do not hold, in shared memory: read once, however often the kernel goes through them.
namespace ingot::kernels::cuda {

/// Rows that begin where packs may, each taken by a block that has all of it in shared memory. Two packs at a
/// time are enough from there.
template <class T>
struct SharedRowForm : RowForm<T, 512, 2, kPack<T>, false, false> {
  static constexpr bool kShared = true;
};

/// Where a kernel that goes through its rows more than once fetches them from: for a SharedRowForm a copy, in
/// which the next row arrives while this one is written, for others the rows themselves. A thread copies what
/// it fetches itself, so it waits for no other.
template <class Form>
class RowSource {
 public:
  using T = typename Form::T;
  using Index = typename Form::Index;

  __device__ __forceinline__ void start(const T* row, Index n) {
    if constexpr (Form::kShared)
      for (int batch = 0; batch < Form::batches(n); ++batch) start(row, n, batch);
  }
  /// Begins to copy a batch over that of the row before, of which this thread needs nothing more.
  __device__ __forceinline__ void start(const T* row, Index n, int batch) {
    if constexpr (Form::kShared) {
      INGOT_DYNAMIC_SHARED(T, copy);
      INGOT_UNROLL
      for (int p = 0; p < Form::kPacks; ++p) {
        const Index at = Form::place(batch, p);
        if (at + Form::kVec <= n) {
          copy_async(copy + at, row + at, true);
        } else {
          for (Index i = at; i < n; ++i) copy[i] = row[i];
        }
      }
      commit_copies();
    }
  }
  /// What is to be fetched from in place of `row`, which was started.
  __device__ __forceinline__ const T* arrived(const T* row) const {
    if constexpr (Form::kShared) {
      INGOT_DYNAMIC_SHARED(T, copy);
      wait_copies<0>();
      return copy;
    }
    return row;
  }
};

/// Bytes of shared memory for a row of `width`; 0 where a block of the device cannot have so many.
template <class T>
std::size_t shared_row_bytes(Device device, std::int64_t width) {
  constexpr std::size_t kElsewhere = 1024;  // what kernels declare, for exchanges
  const std::size_t bytes = (static_cast<std::size_t>(width) * sizeof(T) + 15) / 16 * 16;
  return bytes + kElsewhere <= shared_memory(device) ? bytes : 0;
}
/// As many blocks as are there at once, so that each has a next row to copy.
template <class T>
Size3 shared_row_grid(Device device, std::int64_t rows, std::size_t bytes) {
  constexpr std::size_t kBeside = 2048;  // of a block: what it declares and what the card keeps
  const bool two = 2 * (bytes + kBeside) <= shared_memory(device) + 1024;
  return {grid_for(device, rows, 1, two ? SharedRowForm<T>::kBlocks : 1)};
}

}  // namespace ingot::kernels::cuda
