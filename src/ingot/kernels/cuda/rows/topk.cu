#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/topk.h"

namespace ingot::kernels::cuda {
namespace {

/// An element and its position, in the order of the result: larger first, of equals the first index; a NaN is
/// the smallest, as −infinity.
struct Ranked {
  float value;
  std::int64_t position;

  __device__ bool before(const Ranked& other) const {
    return value > other.value || (value == other.value && position < other.position);
  }
};

template <class T>
__device__ __forceinline__ Ranked ranked(const T* x, std::int64_t i) {
  const float value = to_float(x[i]);
  return {value != value ? -INFINITY : value, i};
}

/// The first of what the lanes of a warp hold, in every lane.
__device__ __forceinline__ Ranked first_of_warp(Ranked mine) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const Ranked other{__shfl_xor_sync(kAllLanes, mine.value, apart),
                       __shfl_xor_sync(kAllLanes, static_cast<long long>(mine.position), apart)};
    if (other.before(mine)) mine = other;
  }
  return mine;
}

template <int size>
__device__ Ranked first_of_team(Ranked mine) {
  mine = first_of_warp(mine);
  if constexpr (size > kWarp) {
    constexpr int kWarps = size / kWarp;
    INGOT_SHARED_ARRAY(Ranked, firsts, kWarps);
    __syncthreads();  // the round before has been read
    if (threadIdx.x % kWarp == 0) firsts[threadIdx.x / kWarp] = mine;
    __syncthreads();
    mine = firsts[0];
    for (int i = 1; i < kWarps; ++i)
      if (firsts[i].before(mine)) mine = firsts[i];
  }
  return mine;
}

// k rounds, each of which finds what comes next after the round before: k is small, and a row that was read
// once is in a cache. Nothing has to be kept but the last one found.
template <class T, int size>
__global__ void topk_kernel(const T* x, std::int64_t* indices, std::int64_t rows, std::int64_t n,
                            std::int64_t k) {
  for (std::int64_t row = ThreadGroup<size>::first_row(); row < rows; row += ThreadGroup<size>::row_step()) {
    Ranked last{INFINITY, -1};
    for (std::int64_t round = 0; round < k; ++round) {
      Ranked best{-INFINITY, n};  // after every element
      for (std::int64_t i = ThreadGroup<size>::lane(); i < n; i += size) {
        const Ranked one = ranked(x + row * n, i);
        if (last.before(one) && one.before(best)) best = one;
      }
      last = first_of_team<size>(best);
      if (ThreadGroup<size>::lane() == 0) indices[row * k + round] = last.position;
    }
  }
}

void run_topk(const TopKArgs& args, Stream stream) {
  for_rows("topk", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"topk", stream, args.x}, topk_kernel<T, size>, grid, block, 0, args.x.as<T>(),
           args.indices.as<std::int64_t>(), args.x.rows(), args.x.dim(-1), args.indices.dim(-1));
  });
}

/// The larger of two elements and its position: a NaN is the largest, of equals the first.
struct Largest {
  float value;
  std::int64_t position;  // one after the row's end is worse than any, also than that of -infinity

  __device__ void meet(float other, std::int64_t at) {
    const bool nan = value != value, other_nan = other != other;
    const bool equal = nan || other_nan ? nan == other_nan : value == other;
    if (equal ? at < position : other_nan || (!nan && other > value)) *this = {other, at};
  }
};

// A row in vectors of 16 bytes from the first address that allows them, several on their way at a time.
template <class T, int size>
__global__ void argmax_kernel(const T* x, std::int64_t* y, std::int64_t rows, std::int64_t n) {
  constexpr int kVec = kVector<T>, kUnroll = 4;
  const int lane = ThreadGroup<size>::lane();
  for (std::int64_t row = ThreadGroup<size>::first_row(); row < rows; row += ThreadGroup<size>::row_step()) {
    const T* from = x + row * n;
    const auto behind = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / sizeof(T) % kVec);
    const std::int64_t head = (kVec - behind) % kVec < n ? (kVec - behind) % kVec : n;
    const std::int64_t vectors = (n - head) / kVec;
    Largest best{-INFINITY, n};
    if (lane < head) best.meet(to_float(from[lane]), lane);
    for (std::int64_t i = lane; i < vectors; i += size * kUnroll) {
      Vector<T, kVec> read[kUnroll];
      INGOT_UNROLL
      for (int u = 0; u < kUnroll; ++u)
        if (i + u * size < vectors) read[u] = load_vector<kVec>(from + head + (i + u * size) * kVec);
      INGOT_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        if (i + u * size >= vectors) continue;
        INGOT_UNROLL
        for (int v = 0; v < kVec; ++v)
          best.meet(to_float(read[u].values[v]), head + (i + u * size) * kVec + v);
      }
    }
    const std::int64_t tail = head + vectors * kVec + lane;
    if (tail < n) best.meet(to_float(from[tail]), tail);
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best.value, apart);
      best.meet(other, __shfl_xor_sync(kAllLanes, static_cast<long long>(best.position), apart));
    }
    if constexpr (size > kWarp) {
      INGOT_SHARED_ARRAY(Largest, firsts, size / kWarp);
      __syncthreads();  // those of the row before have been read
      if (lane % kWarp == 0) firsts[lane / kWarp] = best;
      __syncthreads();
      for (int i = 0; i < size / kWarp; ++i) best.meet(firsts[i].value, firsts[i].position);
    }
    if (lane == 0) y[row] = best.position;
  }
}

void run_argmax(const ArgmaxArgs& args, Stream stream) {
  for_rows("argmax", stream, args.x, [&]<class T, int size>(Size3 grid, Size3 block) {
    launch({"argmax", stream, args.x}, argmax_kernel<T, size>, grid, block, 0, args.x.as<T>(),
           args.y.as<std::int64_t>(), args.x.rows(), args.x.dim(-1));
  });
}

}  // namespace

void register_topk() {
  argmax.add(DeviceType::cuda,
             {"cuda", ImplKind::cuda, [](const ArgmaxArgs& args) { return is_device_float(args.x.dtype); },
              run_argmax});
  topk.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                              [](const TopKArgs& args) { return is_device_float(args.x.dtype); }, run_topk});
}

}  // namespace ingot::kernels::cuda
