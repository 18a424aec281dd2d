#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "ingot/kernels/cuda/hardware/global_memory.h"
#include "ingot/kernels/cuda/hardware/launch.h"

// All tensors of a model in one launch, or a few: their descriptions travel as parameters of the kernel, so
// that nothing has to be copied to the device first. A block works on one chunk of one tensor.
namespace ingot::kernels::cuda {

inline constexpr int kBatchThreads = 256;
/// Elements of a block: small enough that 10 million fill a GPU.
inline constexpr std::int64_t kBatchChunk = 4096;
/// Elements of a thread at a time.
inline constexpr int kBatchVec = 4;
inline constexpr std::size_t kParameterBytes = 32000;

/// Tensors of one launch, and which block begins each. A block has `chunk` elements of one.
template <class Item, std::int64_t chunk = kBatchChunk>
struct Batch {
  static constexpr int kMost = static_cast<int>(kParameterBytes / (sizeof(Item) + sizeof(int)));
  int count;
  int first_block[kMost];
  Item items[kMost];

  /// The tensor of this block; `begin` is where its chunk of the tensor begins.
  __device__ const Item& mine(std::int64_t& begin) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_block[middle] <= static_cast<int>(blockIdx.x) ? low : high) = middle;
    }
    begin = (static_cast<std::int64_t>(blockIdx.x) - first_block[low]) * chunk;
    return items[low];
  }
};

/// Launches kernel(batch, arguments...) for all items; size_of(item) is its number of elements.
template <class Item, std::int64_t chunk, class... Parameters, class... Arguments>
void for_batches(const LaunchSite& site, void (*kernel)(Batch<Item, chunk>, Parameters...),
                 const std::vector<Item>& items, const Arguments&... arguments) {
  for (std::size_t begin = 0; begin < items.size();) {
    Batch<Item, chunk> batch{};  // zeros in the positions that are not used
    std::int64_t blocks = 0;
    for (batch.count = 0; begin < items.size() && batch.count < batch.kMost; ++begin) {
      const std::int64_t chunks = (items[begin].n + chunk - 1) / chunk;
      if (chunks == 0) continue;
      if (blocks + chunks > 0x7fffffff) break;
      batch.items[batch.count] = items[begin];
      batch.first_block[batch.count++] = static_cast<int>(blocks);
      blocks += chunks;
    }
    if (blocks > 0)
      launch(site, kernel, Size3{static_cast<unsigned>(blocks)}, Size3{kBatchThreads}, 0, batch,
             arguments...);
  }
}

/// Calls f.template operator()<vec>(i) for the vectors of a chunk, of kBatchVec elements where `packed`, else
/// of one.
template <class F>
__device__ __forceinline__ void over_chunk(std::int64_t begin, std::int64_t n, bool packed, F f) {
  const std::int64_t end = begin + kBatchChunk < n ? begin + kBatchChunk : n,
                     whole = packed ? end / kBatchVec * kBatchVec : begin;
  for (std::int64_t i = begin + threadIdx.x * kBatchVec; i < whole; i += kBatchThreads * kBatchVec)
    f.template operator()<kBatchVec>(i);
  for (std::int64_t i = whole + threadIdx.x; i < end; i += kBatchThreads) f.template operator()<1>(i);
}

/// Whether all of these can be read `vec` elements at a time; an absent one is not read.
inline bool aligned(std::initializer_list<View> views, std::size_t vec = kBatchVec) {
  return std::ranges::all_of(views, [vec](const View& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % (vec * byte_size(view.dtype)) == 0;
  });
}

/// Calls f(tensors) for the tensors of each kind by itself, so that a launch knows its dtypes: the kinds come
/// in the order of their first tensor.
template <class Tensor, class Kind, class F>
void for_kinds(std::span<const Tensor> tensors, Kind kind, F f) {
  std::vector<bool> done(tensors.size());
  for (std::size_t first = 0; first < tensors.size(); ++first) {
    std::vector<Tensor> same;
    for (std::size_t i = first; i < tensors.size(); ++i) {
      if (done[i] || kind(tensors[i]) != kind(tensors[first])) continue;
      done[i] = true;
      same.push_back(tensors[i]);
    }
    if (!same.empty()) f(same);
  }
}

template <int vec, class T>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[vec]) {
  const auto vector = load_vector<vec>(from);
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) to[v] = to_float(vector.values[v]);
}
template <int vec, class T>
__device__ __forceinline__ void store_floats(T* to, const float (&from)[vec]) {
  Vector<T, vec> vector;
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) vector.values[v] = from_float<T>(from[v]);
  store_global(to, vector);
}

}  // namespace ingot::kernels::cuda
