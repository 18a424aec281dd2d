#pragma once

#include <algorithm>

#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/rows/token_angles.h"

// RMS norm of heads, and RoPE of what it gives: what both ways have in common. A thread group has a head in
// registers: a thread's vectors of the second half of a head are as far from those of the first as pairs of
// elements are.
namespace ingot::kernels::cuda {

/// A tensor [B, S, H, D].
template <class T>
struct Heads {
  T* data;  // or null
  std::int64_t strides[3];
  __device__ __forceinline__ T* at(std::int64_t b, std::int64_t s, std::int64_t h) const {
    return data + b * strides[0] + s * strides[1] + h * strides[2];
  }
};

template <class T>
Heads<T> heads_of(const View& x) {
  Heads<T> made{.data = static_cast<T*>(x.data), .strides = {}};
  for (int i = 0; x && i < 3; ++i) made.strides[i] = x.stride(i);
  return made;
}

/// The heads of a tensor in the order that thread groups take them: `groups` thread groups share the heads of
/// a token, which each reads the token's angles once.
struct HeadOrder {
  static constexpr int kHeadsOfGroup = 4;
  std::int64_t batch_tokens, tokens, heads, groups;  // B·S, S, H

  HeadOrder() = default;
  explicit HeadOrder(const View& x)
      : batch_tokens(x.dim(0) * x.dim(1)),
        tokens(x.dim(1)),
        heads(x.dim(2)),
        groups((heads + kHeadsOfGroup - 1) / kHeadsOfGroup) {}
  constexpr std::int64_t units() const { return batch_tokens * groups; }
};

/// Where a thread group is: what it takes of a token are the heads `first`, first + groups, ...; all thread
/// groups of a block go through as many rounds, for their lanes exchange sums. Numbers are below 2^31
/// (rotate_in_vectors), where divisions are short.
struct HeadPosition {
  int heads, groups, token, b, s, first;
  bool live;

  __device__ __forceinline__ HeadPosition(const HeadOrder& order, std::int64_t unit)
      : heads(static_cast<int>(order.heads)),
        groups(static_cast<int>(order.groups)),
        live(unit < order.units()) {
    const int at = live ? static_cast<int>(unit) : 0, tokens = static_cast<int>(order.tokens);
    token = at / groups;
    first = at % groups;
    b = token / tokens;
    s = token % tokens;
  }
  __device__ __forceinline__ bool has(int head) const { return live && head < heads; }
  /// The number of a head among all.
  __device__ __forceinline__ std::int64_t row(int head) const { return std::int64_t{token} * heads + head; }
};

/// A head of whole vectors, of `2 · pairs` to each of `size` threads.
template <class T, int size, int pairs>
using HeadConfig = RowConfig<T, size, 2 * pairs, kVector<T>, true>;

/// Cosines and sines of a thread's elements.
template <class Config>
struct HeadAngles {
  static constexpr int kPairs = Config::kVectors / 2;
  float cos[kPairs][Config::kVec], sin[kPairs][Config::kVec];

  __device__ __forceinline__ void load(const TokenAngles& angles, const HeadPosition& at, bool inverse) {
    const std::int64_t position = at.live ? angles.position(at.b, at.s) : 0;
    INGOT_UNROLL
    for (int p = 0; p < kPairs; ++p)
      angles.load<Config::kVec>(position, Config::position(0, p), inverse, cos[p], sin[p]);
  }
  /// Rotates a head.
  __device__ __forceinline__ void rotate(RowVectors<Config>& x) const {
    INGOT_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      const auto u = x.vectors[p], v = x.vectors[p + kPairs];
      x.vectors[p].fill([&](int i) { return rotate_pair(u.get(i), v.get(i), cos[p][i], sin[p][i]).first; });
      x.vectors[p + kPairs].fill(
          [&](int i) { return rotate_pair(u.get(i), v.get(i), cos[p][i], sin[p][i]).second; });
    }
  }
};

/// The sum of term(vector, element of it) over a head, the same in all lanes, with the bits that it has in
/// rms_norm: there heads of up to 32 vectors have eight threads, so that four of ours each sum for two.
template <class Config, class F>
__device__ __forceinline__ float head_sum(F&& term) {
  constexpr int kLanes = Config::ThreadGroup::kThreads / Config::ThreadGroup::kThreadGroups,
                kSums = kLanes == 4 ? 2 : 1;
  float sums[kSums] = {};
  Config::each([&](int p, int v) { term(p, v, sums[p % kSums]); });
  return lanes_sum<kLanes>(kSums == 2 ? sums[0] + sums[kSums - 1] : sums[0]);
}

/// Calls f.template operator()<Config>() with the config for heads of so many elements; false where there is
/// none.
template <class T, class F>
bool dispatch_head_config(std::int64_t size, F&& f) {
  switch (size / kVector<T>) {
    case 8:
      return f.template operator()<HeadConfig<T, 4, 1>>(), true;
    case 16:
      return f.template operator()<HeadConfig<T, 8, 1>>(), true;
    case 32:
      return f.template operator()<HeadConfig<T, 8, 2>>(), true;
    case 64:
      return f.template operator()<HeadConfig<T, 32, 1>>(), true;
    default:
      return false;
  }
}

/// Whether heads rotate as these configs do: all of them, all elements, halves apart, in whole vectors.
template <class T>
bool rotate_in_vectors(const View& x, const RopeAngles& angles, std::int64_t most_heads,
                       std::initializer_list<View> weights, std::initializer_list<View> heads) {
  constexpr std::int64_t kMostUnits = 1LL << 31;
  if (angles.interleaved || 2 * angles.cos.dim(1) != x.dim(3) || angles.rotated_heads < most_heads)
    return false;
  if (x.dim(3) % kVector<T> != 0 || x.dim(0) * x.dim(1) * most_heads >= kMostUnits) return false;
  return angles_in_vectors(angles) && rows_are_aligned(weights) &&
         std::ranges::all_of(heads, [](const View& view) { return heads_in_vectors(view, kVector<T>); });
}

/// In which order rms_norm and its gradient add the terms of a row: lane by lane, of so many lanes with `vec`
/// neighbours at a time, then over the lanes.
struct SumOrder {
  int lanes, vec;
};

/// That of heads of up to 128 vectors, or else of up to 1024 elements.
template <class T>
SumOrder sum_order(std::int64_t size, bool backward) {
  if (size % kVector<T> != 0) return {backward ? 128 : kWarp, 1};
  return {size / kVector<T> <= 32 ? 8 : kWarp, kVector<T>};
}

/// The sum of term(element) over a head of a warp, in that order and the same in all lanes.
template <class F>
__device__ __forceinline__ float ordered_sum(SumOrder order, std::int64_t size, F&& term) {
  constexpr int kMostWarps = 4;
  float sums[kMostWarps] = {};
  INGOT_UNROLL
  for (int warp = 0; warp < kMostWarps; ++warp) {
    if (warp * kWarp >= order.lanes) break;
    const int lane = warp * kWarp + static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t end = lane < order.lanes ? size : 0;
    for (std::int64_t at = std::int64_t{lane} * order.vec; at < end; at += order.lanes * order.vec)
      for (int v = 0; v < order.vec; ++v) term(at + v, sums[warp]);
    sums[warp] = warp_sum(sums[warp]);
  }
  return order.lanes > kWarp ? (sums[0] + sums[2]) + (sums[1] + sums[3]) : sums[0];
}

/// How the elements of a head that rotate are paired.
struct HeadPairs {
  std::int64_t half;
  bool interleaved;
  /// The pair of an element.
  __device__ __forceinline__ std::int64_t of(std::int64_t i) const {
    return interleaved ? i / 2 : (i < half ? i : i - half);
  }
  __device__ __forceinline__ std::int64_t first(std::int64_t pair) const {
    return interleaved ? 2 * pair : pair;
  }
  __device__ __forceinline__ std::int64_t second(std::int64_t pair) const {
    return interleaved ? 2 * pair + 1 : pair + half;
  }
};

}  // namespace ingot::kernels::cuda
