#pragma once

#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/hardware/global_memory.h"
#include "ingot/kernels/cuda/hardware/pairs.h"

// Rows that a thread group reads in vectors. All vectors of a batch are asked for before the first is used: a
// kernel that waits for memory wants many loads under way, and a store between two loads, which might go to
// the same address, would hold the second one up. So fetch all, compute, write all; outputs may then be
// inputs too.
namespace ingot::kernels::cuda {

/// How a thread group of `size` threads goes through a row of T: in batches of `vectors` vectors of `vec`
/// elements per thread. A `held` row is one batch, which stays in registers however often the kernel goes
/// through it; others are read again. Rows that are not `whole` vectors end with a part of one, element by
/// element.
template <class T_, int size, int vectors, int vec, bool held, bool whole = true>
struct RowConfig {
  using T = T_;
  using ThreadGroup = cuda::ThreadGroup<size>;
  using Index = std::conditional_t<held, int, std::int64_t>;
  static constexpr int kVectors = vectors, kVec = vec;
  static constexpr int kVectorStep = size * vec,
                       kStep = kVectorStep * vectors;  ///< elements to the next vector, batch
  static constexpr bool kHeld = held, kWhole = whole;
  /// How many blocks a multiprocessor should hold at least: 1024 threads, which leaves 64 registers to each,
  /// or 640 with 96 for kernels that have two rows at hand.
  static constexpr int kBlocks = 1024 / ThreadGroup::kThreads;
  static constexpr int kBlocksOfTwo = 640 / ThreadGroup::kThreads;

  __device__ static int batches(std::int64_t n) {
    return held ? 1 : static_cast<int>((n + kStep - 1) / kStep);
  }
  /// The first element of a vector of this thread. Neighbours have neighbouring vectors.
  __device__ static Index position(int batch, int vector) {
    return static_cast<Index>(ThreadGroup::lane()) * vec +
           (static_cast<Index>(batch) * vectors + vector) * kVectorStep;
  }
  /// Whether an element of a vector is one of a row of `n`.
  __device__ static bool is_in(Index n, int batch, int vector, int element) {
    return position(batch, vector) + (whole ? 0 : element) < n;
  }
  /// f(vector, element of it) for each element of a batch.
  template <class F>
  __device__ __forceinline__ static void each(F&& f) {
    INGOT_UNROLL
    for (int p = 0; p < vectors; ++p) {
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) f(p, v);
    }
  }
};

/// `count` neighbours as registers hold them. Those of 16 bits lie two in a register until they are used: the
/// elements of a row as floats would take twice the registers, and half the rows would be under way.
template <class T, int count>
struct Elements {
  Vector<T, count> vector;
  __device__ __forceinline__ void load(const T* from) { vector = load_vector<count>(from); }
  __device__ __forceinline__ void store(T* to) const { store_global(to, vector); }
  __device__ __forceinline__ float get(int i) const { return to_float(vector.values[i]); }
  /// The greatest element; what is not a number does not count.
  __device__ __forceinline__ float top() const {
    float top = get(0);
    INGOT_UNROLL
    for (int i = 1; i < count; ++i) top = fmaxf(top, get(i));
    return top;
  }
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int i = 0; i < count; ++i) vector.values[i] = from_float<T>(f(i));
  }
  __device__ __forceinline__ void keep() {}
};

template <class T, int count>
requires(sizeof(T) == 2 && count % 2 == 0) struct Elements<T, count> {
  Vector<std::uint32_t, count / 2> vector;
  __device__ __forceinline__ void load(const T* from) {
    vector = bits_as<Vector<std::uint32_t, count / 2>>(load_vector<count>(from));
  }
  __device__ __forceinline__ void store(T* to) const { store_global(to, bits_as<Vector<T, count>>(vector)); }
  __device__ __forceinline__ float get(int i) const {
    const std::uint32_t two = vector.values[i / 2];
    if constexpr (std::is_same_v<T, bfloat_t>) {  // the upper half of a float
      return bits_as<float>(i % 2 == 0 ? two << 16 : two & 0xffff0000U);
    } else {
      return half_of(two, i % 2);
    }
  }
  __device__ __forceinline__ float top() const { return greatest_of<T>(vector.values); }
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int i = 0; i < count; i += 2) {
      const float low = f(i), high = f(i + 1);
      vector.values[i / 2] = pair_of<T>(low, high);
    }
  }
  /// Keeps the compiler from keeping the elements as floats that it has converted already.
  __device__ __forceinline__ void keep() {
    INGOT_UNROLL
    for (int i = 0; i < count / 2; ++i) keep_register(vector.values[i]);
  }
};

/// A thread's part of a batch.
template <class Config>
struct RowVectors {
  using T = typename Config::T;
  using Index = typename Config::Index;
  /// How far beyond its first element a vector has to lie within the row to be read at once.
  static constexpr int kLast = Config::kWhole ? 0 : Config::kVec - 1;
  Elements<T, Config::kVec> vectors[Config::kVectors];

  /// Reads from a row of `n` elements; beyond it there is `absent`.
  __device__ __forceinline__ void fetch(const T* row, Index n, int batch, float absent = 0.0F) {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) {
      vectors[p].fill([&](int) { return absent; });
      const Index at = Config::position(batch, p);
      if (at + kLast < n) vectors[p].load(row + at);
    }
    if constexpr (!Config::kWhole) {
      INGOT_UNROLL
      for (int p = 0; p < Config::kVectors; ++p) {
        const Index at = Config::position(batch, p);
        if (at < n && at + kLast >= n)
          vectors[p].fill([&](int v) { return at + v < n ? to_float(row[at + v]) : absent; });
      }
    }
  }
  /// fetch() and write() of a batch that lies within the row.
  __device__ __forceinline__ void load(const T* row, int batch) {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) vectors[p].load(row + Config::position(batch, p));
  }
  __device__ __forceinline__ void store(T* row, int batch) const {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) vectors[p].store(row + Config::position(batch, p));
  }
  /// For another pass: reads what is not held.
  __device__ __forceinline__ void fetch_again(const T* row, Index n, int batch, float absent = 0.0F) {
    if constexpr (Config::kHeld) {
      keep();
    } else {
      fetch(row, n, batch, absent);
    }
  }
  /// Keeps the compiler from keeping the elements as floats that it has converted already.
  __device__ __forceinline__ void keep() {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) vectors[p].keep();
  }
  __device__ __forceinline__ void write(T* row, Index n, int batch) const {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) {
      const Index at = Config::position(batch, p);
      if (at + kLast < n) {
        vectors[p].store(row + at);
      } else if (!Config::kWhole && at < n) {
        INGOT_UNROLL
        for (int v = 0; v < Config::kVec; ++v)
          if (at + v < n) row[at + v] = from_float<T>(get(p, v));
      }
    }
  }
  __device__ __forceinline__ float get(int p, int v) const { return vectors[p].get(v); }
  /// The greatest element; what is not a number does not count.
  __device__ __forceinline__ float top() const {
    float top = vectors[0].top();
    INGOT_UNROLL
    for (int p = 1; p < Config::kVectors; ++p) top = fmaxf(top, vectors[p].top());
    return top;
  }
  /// Makes each element f(vector, element of it), which may use what is there.
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int p = 0; p < Config::kVectors; ++p) vectors[p].fill([&](int v) { return f(p, v); });
  }
};

/// Combines what the threads of a thread group have with one barrier each: two calls one after the other use
/// two positions of shared memory.
template <class ThreadGroup>
class ThreadGroupExchange {
 public:
  /// `combine.template operator()<lanes>(values)` makes `values` the same in a group of so many lanes. It
  /// must not care which of two operands comes first.
  template <int count, class Combine>
  __device__ __forceinline__ void all(float (&values)[count], const Combine& combine) {
    constexpr int kLanes = ThreadGroup::kThreads / ThreadGroup::kThreadGroups;
    combine.template operator()<(kLanes < kWarp ? kLanes : kWarp)>(values);
    if constexpr (ThreadGroup::kWarps > 1) {
      INGOT_SHARED_ARRAY(float, parts, 2 * count * ThreadGroup::kWarps);
      float* const mine = parts + (turn_ ? count * ThreadGroup::kWarps : 0);
      turn_ = !turn_;
      const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
      INGOT_UNROLL
      for (int k = 0; k < count; ++k)
        if (lane == 0) mine[k * ThreadGroup::kWarps + warp] = values[k];
      __syncthreads();
      INGOT_UNROLL
      for (int k = 0; k < count; ++k) values[k] = mine[k * ThreadGroup::kWarps + lane % ThreadGroup::kWarps];
      combine.template operator()<ThreadGroup::kWarps>(values);
    }
  }
  template <int count>
  __device__ __forceinline__ void sum(float (&values)[count]) {
    all(values, [&]<int lanes>(float(&sums)[count]) {
      INGOT_UNROLL
      for (int k = 0; k < count; ++k) sums[k] = lanes_sum<lanes>(sums[k]);
    });
  }
  __device__ __forceinline__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  bool turn_ = false;
};

/// How wide the rows of `x` are, of which there are x.rows().
inline std::int64_t row_width(const View& x) { return x.rank == 0 ? 1 : x.dim(-1); }

/// Whether the rows of all `views` begin where vectors of 16 bytes may. Absent views do not matter, nor does
/// the distance of rows where there is one.
inline bool rows_are_aligned(std::initializer_list<View> views) {
  for (const View& view : views) {
    if (!view) continue;
    const auto bytes = static_cast<std::int64_t>(byte_size(view.dtype));
    if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0) return false;
    if (view.rank > 1 && view.rows() > 1 && view.stride(-2) * bytes % 16 != 0) return false;
  }
  return true;
}
/// Whether, besides, rows of `width` are whole vectors.
inline bool rows_in_vectors(std::int64_t width, std::initializer_list<View> views) {
  for (const View& view : views)
    if (view && width * static_cast<std::int64_t>(byte_size(view.dtype)) % 16 != 0) return false;
  return rows_are_aligned(views);
}

/// Calls f.template operator()<Config>() with the config for rows of `width` T: up to 2048 vectors of 16
/// bytes are held in registers.
template <class T, class F>
void dispatch_row_config(std::int64_t width, bool in_vectors, F&& f) {
  constexpr int kVec = kVector<T>;
  if (!in_vectors) {
    if (width <= 1024) return f.template operator()<RowConfig<T, kWarp, 8, 1, false>>();
    return f.template operator()<RowConfig<T, 512, 8, 1, false>>();
  }
  const std::int64_t vectors = width / kVec;
  if (vectors <= 32) return f.template operator()<RowConfig<T, 8, 4, kVec, true>>();
  if (vectors <= 128) return f.template operator()<RowConfig<T, 32, 4, kVec, true>>();
  if (vectors <= 512) return f.template operator()<RowConfig<T, 128, 4, kVec, true>>();
  if (vectors <= 1024) return f.template operator()<RowConfig<T, 256, 4, kVec, true>>();
  if (vectors <= 2048) return f.template operator()<RowConfig<T, 512, 4, kVec, true>>();
  f.template operator()<RowConfig<T, 512, 4, kVec, false>>();
}

/// The same for kernels that pass over their rows once and need nothing of a whole row, so hold none.
template <class T, class F>
void dispatch_passing_config(std::int64_t width, bool in_vectors, F&& f) {
  constexpr int kVec = kVector<T>;
  if (!in_vectors) {
    if (width <= 1024) return f.template operator()<RowConfig<T, kWarp, 8, 1, false>>();
    return f.template operator()<RowConfig<T, 512, 8, 1, false>>();
  }
  if (width <= 512 * kVec) return f.template operator()<RowConfig<T, kWarp, 4, kVec, false>>();
  f.template operator()<RowConfig<T, 512, 4, kVec, false>>();
}

/// The grid and block of a kernel whose thread groups take `rows` rows in turn.
template <class Config>
Size3 row_grid(Device device, std::int64_t rows) {
  return {grid_for(device, rows, Config::ThreadGroup::kThreadGroups, 32)};
}
template <class Config>
inline constexpr Size3 kRowBlock{Config::ThreadGroup::kThreads};

}  // namespace ingot::kernels::cuda
