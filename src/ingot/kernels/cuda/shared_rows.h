#pragma once

#include "ingot/kernels/cuda/row_packs.h"
#include "ingot/kernels/cuda/tensor_core.h"

// Rows that registers do not hold, in shared memory: read once, however often the kernel goes through them.
namespace ingot::kernels::cuda {

/// The row that a block of 512 threads has in shared memory. It begins where packs may, and is taken in
/// batches of two packs for each thread. A thread fetches only what it copied itself, so none waits for
/// others, and a batch of the next row can be started where the thread needs nothing more of this one's.
template <class T>
class SharedRow {
 public:
  using Form = RowForm<T, 512, 2, kPack<T>, true, false>;
  static constexpr int kBlocks = 2;  ///< of a multiprocessor at most: 1024 threads of 64 registers

  __device__ __forceinline__ explicit SharedRow(std::int64_t n) : n_(static_cast<int>(n)) {}
  __device__ __forceinline__ int batches() const { return (n_ + Form::kStep - 1) / Form::kStep; }

  /// Begins to copy a batch of `row`; commit_copies() ends it.
  __device__ __forceinline__ void start(const T* row, int batch) const {
    INGOT_DYNAMIC_SHARED(T, copy);
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) {
      const int at = Form::place(batch, p);
      if (is_whole(batch) || at + Form::kVec <= n_) {
        copy_async(copy + at, row + at, true);
      } else {
        for (int i = at; i < n_; ++i) copy[i] = row[i];
      }
    }
  }
  /// A batch that has arrived; -infinity behind the row.
  __device__ __forceinline__ RowPacks<Form> fetch(int batch) const {
    INGOT_DYNAMIC_SHARED(T, copy);
    RowPacks<Form> x;
    if (is_whole(batch)) {
      x.load(copy, batch);
    } else {
      x.fetch(copy, n_, batch, -INFINITY);
    }
    return x;
  }
  __device__ __forceinline__ void write(const RowPacks<Form>& x, T* row, int batch) const {
    if (is_whole(batch)) {
      x.store(row, batch);
    } else {
      x.write(row, n_, batch);
    }
  }
  /// Whether this thread is the one that fetches and writes element `i`.
  __device__ __forceinline__ static bool has(std::int64_t i) {
    return static_cast<int>(i / Form::kVec % Form::Team::kThreads) == Form::Team::lane();
  }

 private:
  __device__ __forceinline__ bool is_whole(int batch) const { return (batch + 1) * Form::kStep <= n_; }

  int n_;
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
  return {grid_for(device, rows, 1, two ? SharedRow<T>::kBlocks : 1)};
}

}  // namespace ingot::kernels::cuda
