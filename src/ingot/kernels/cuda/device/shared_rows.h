#pragma once

#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/device/tensor_core.h"

// Rows that registers do not hold, in shared memory: read once, however often the kernel goes through them.
// Where a row is longer than that, the registers that one block leaves idle take its first batches.
namespace ingot::kernels::cuda {

/// The row that a block of 512 threads has in shared memory, but for its first `held` batches, which the
/// kernel has in registers. It begins where vectors may, and is taken in batches of two vectors for each
/// thread. A thread fetches only what it copied itself, so none waits for others, and a batch of the next row
/// can be started where the thread needs nothing more of this one's. Held batches are whole ones: only the
/// end of a row, in shared memory, may be a part of a batch and of a vector.
template <class T_, int held>
class SharedRow {
 public:
  using T = T_;
  using Config = RowConfig<T, 512, 2, kVector<T>, true, false>;
  /// Blocks of a multiprocessor at most: 1024 threads of 64 registers, or 512 of 128 where some hold a row.
  static constexpr int kBlocks = held == 0 ? 2 : 1;
  static constexpr int kHeld = held, kHeldElements = held * Config::kStep;

  __device__ __forceinline__ explicit SharedRow(std::int64_t n) : n_(static_cast<int>(n) - kHeldElements) {}
  /// How many batches are in shared memory: those that the functions below number, from 0. Their `row` is the
  /// whole one.
  __device__ __forceinline__ int batches() const { return (n_ + Config::kStep - 1) / Config::kStep; }

  /// Begins to copy a batch of `row`; commit_copies() ends it.
  __device__ __forceinline__ void start(const T* row, int batch) const {
    INGOT_DYNAMIC_SHARED(T, copy);
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) {
      const int at = Config::position(batch, p);
      if (is_whole(batch) || at + Config::kVec <= n_) {
        copy_async(copy + at, row + kHeldElements + at, true);
      } else {
        for (int i = at; i < n_; ++i) copy[i] = row[kHeldElements + i];
      }
    }
  }
  /// A batch that has arrived; -infinity behind the row.
  __device__ __forceinline__ RowVectors<Config> fetch(int batch) const {
    INGOT_DYNAMIC_SHARED(T, copy);
    RowVectors<Config> x;
    if (is_whole(batch)) {
      x.load(copy, batch);
    } else {
      x.fetch(copy, n_, batch, -INFINITY);
    }
    return x;
  }
  __device__ __forceinline__ void write(const RowVectors<Config>& x, T* row, int batch) const {
    if (is_whole(batch)) {
      x.store(row + kHeldElements, batch);
    } else {
      x.write(row + kHeldElements, n_, batch);
    }
  }
  /// Whether this thread is the one that fetches and writes element `i` of the whole row.
  __device__ __forceinline__ static bool has(std::int64_t i) {
    return static_cast<int>(i / Config::kVec % Config::ThreadGroup::kThreads) == Config::ThreadGroup::lane();
  }

 private:
  __device__ __forceinline__ bool is_whole(int batch) const { return (batch + 1) * Config::kStep <= n_; }

  int n_;  // elements in shared memory
};

/// Bytes of shared memory for a row of `width`; 0 where a block of the device cannot have so many, or the row
/// is shorter than what registers hold of it.
template <class Row>
std::size_t shared_row_bytes(Device device, std::int64_t width) {
  constexpr std::size_t kElsewhere = 1024;  // what kernels declare, for exchanges
  if (width <= Row::kHeldElements) return 0;
  const auto shared = static_cast<std::size_t>(width - Row::kHeldElements);
  const std::size_t bytes = (shared * sizeof(typename Row::T) + 15) / 16 * 16;
  return bytes + kElsewhere <= shared_memory(device) ? bytes : 0;
}
/// As many blocks as are there at once, so that each has a next row to copy.
template <class Row>
Size3 shared_row_grid(Device device, std::int64_t rows, std::size_t bytes) {
  constexpr std::size_t kBeside = 2048;  // of a block: what it declares and what the GPU keeps
  const bool two = 2 * (bytes + kBeside) <= shared_memory(device) + 1024;
  return {grid_for(device, rows, 1, two ? Row::kBlocks : 1)};
}

}  // namespace ingot::kernels::cuda
