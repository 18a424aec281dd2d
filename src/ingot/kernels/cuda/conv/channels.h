#pragma once

#include <algorithm>
#include <span>

#include "ingot/kernels/cuda/device/thread_group.h"

// Sums over all that belongs to a channel, in an order that does not depend on chance, and what is done with
// each element by what is known of its channel.
namespace ingot::kernels::cuda {

/// A contiguous tensor [n, channels, positions], or [n, positions, channels] where `last`.
struct Channels {
  std::int64_t n, channels, positions;
  bool last;

  __device__ std::int64_t at(std::int64_t sample, std::int64_t channel, std::int64_t position) const {
    return last ? (sample * positions + position) * channels + channel
                : (sample * channels + channel) * positions + position;
  }
  std::int64_t total() const { return n * channels * positions; }
};

inline constexpr int kChannelBlock = 256;
inline constexpr int kChannelVisits = 4;  ///< whose loads are under way at a time

/// How threads are laid over a tensor. Channels last: a block has `across` vectors of neighbouring channels
/// across, a power of two, and works on several positions at a time. Otherwise a block has one channel,
/// whose positions are neighbours. The rest of the positions is shared out among gridDim.y blocks.
template <bool last, int vec>
struct ChannelWalk {
  static constexpr int kChannels = last ? vec : 1;  ///< of a thread
  std::int64_t channel;                             ///< the first of them
  bool exists;

  __device__ __forceinline__ ChannelWalk(const Channels& x, int across) : x_(x) {
    const int column = last ? static_cast<int>(threadIdx.x) & (across - 1) : 0,
              row = last ? static_cast<int>(threadIdx.x) / across : static_cast<int>(threadIdx.x),
              rows = last ? kChannelBlock / across : kChannelBlock;
    channel = last ? (std::int64_t{blockIdx.x} * across + column) * vec : blockIdx.x;
    vectors_ = x.positions == 0 ? 1 : last ? x.positions : x.positions / vec;
    const std::int64_t first = std::int64_t{blockIdx.y} * rows + row, step = std::int64_t{gridDim.y} * rows;
    sample_ = first / vectors_;
    vector_ = first - sample_ * vectors_;
    sample_step_ = step / vectors_;
    vector_step_ = step - sample_step_ * vectors_;
    exists = channel < x.channels && x.positions > 0 && sample_ < x.n;
  }

  /// load(u, at) for the next kChannelVisits vectors of the thread, number u of which is at `at`, and then
  /// use(u, at, sample) for each, until there are none.
  template <class Load, class Use>
  __device__ __forceinline__ void visit(Load&& load, Use&& use) {
    while (exists) {
      std::int64_t at[kChannelVisits], samples[kChannelVisits];
      bool there[kChannelVisits];
      INGOT_UNROLL
      for (int u = 0; u < kChannelVisits; ++u) {
        there[u] = exists;
        samples[u] = sample_;
        at[u] = x_.at(sample_, channel, last ? vector_ : vector_ * vec);
        if (there[u]) load(u, at[u]);
        go_on();
      }
      INGOT_UNROLL
      for (int u = 0; u < kChannelVisits; ++u)
        if (there[u]) use(u, at[u], samples[u]);
    }
  }

 private:
  __device__ __forceinline__ void go_on() {  // without a division
    vector_ += vector_step_;
    sample_ += sample_step_;
    if (vector_ >= vectors_) vector_ -= vectors_, ++sample_;
    exists = sample_ < x_.n;
  }
  const Channels& x_;
  std::int64_t sample_, vector_, sample_step_, vector_step_, vectors_;
};

/// A launch that walks over channels.
struct ChannelGrid {
  Size3 blocks;
  int across;
};
/// With up to `most` parts, as many as keep the device busy.
template <int vec>
ChannelGrid channel_grid(Device device, const Channels& x, std::int64_t most) {
  constexpr std::int64_t kShare = 2 * kChannelVisits;  // vectors of a thread that are worth a block more
  int across = 1;
  while (x.last && across < kWarp && across * vec < x.channels) across *= 2;
  const std::int64_t tiles = x.last ? (x.channels + across * vec - 1) / (across * vec) : x.channels;
  const std::int64_t vectors = x.n * (x.last ? x.positions : x.positions / vec);
  const std::int64_t rows = x.last ? kChannelBlock / across : kChannelBlock;
  const std::int64_t wanted = (16 * multiprocessors(device) + tiles - 1) / tiles;
  const std::int64_t parts = std::clamp<std::int64_t>(vectors / (kShare * rows), 1,
                                                      std::max<std::int64_t>(1, std::min(most, wanted)));
  return {{static_cast<unsigned>(tiles), static_cast<unsigned>(parts)}, across};
}

/// Calls run.template operator()<last, vec>() with the number of neighbours to take at a time: of one
/// channel, or, channels last, of as many.
template <class T, class Run>
void by_channel_vectors(const Channels& x, std::span<const T* const> pointers, Run&& run) {
  std::uintptr_t address = 0;
  for (const T* pointer : pointers) address |= reinterpret_cast<std::uintptr_t>(pointer);
  const bool vectors = address % 16 == 0 && (x.last ? x.channels : x.positions) % kVector<T> == 0;
  if (x.last)
    return vectors ? run.template operator()<true, kVector<T>>() : run.template operator()<true, 1>();
  vectors ? run.template operator()<false, kVector<T>>() : run.template operator()<false, 1>();
}

/// Adds up what the rows of a block hold, each `across` threads with `count` values, in an order that does
/// not depend on chance: threads below `across` get the sums. `scratch`: count * kChannelBlock values. Every
/// thread calls it.
template <int count, class P>
__device__ __forceinline__ void sum_rows(P (&values)[count], int across, P* scratch) {
  const int me = static_cast<int>(threadIdx.x);
  __syncthreads();  // somebody may still read what the call before left
  for (int half = kChannelBlock / 2; half >= across; half /= 2) {
    if (me < 2 * half && me >= half) {
      INGOT_UNROLL
      for (int v = 0; v < count; ++v) scratch[v * kChannelBlock + me] = values[v];
    }
    __syncthreads();
    if (me < half) {
      INGOT_UNROLL
      for (int v = 0; v < count; ++v) values[v] += scratch[v * kChannelBlock + me + half];
    }
  }
}

/// The vectors that a thread reads at a time, and an element of each.
template <class F, int vec>
struct ChannelInputs {
  Vector<typename F::Type, vec> vectors[kChannelVisits][F::kInputs];

  __device__ __forceinline__ void load(const F& f, int u, std::int64_t at) {
    INGOT_UNROLL
    for (int i = 0; i < F::kInputs; ++i) vectors[u][i] = load_vector<vec>(f.in[i] + at);
  }
  __device__ __forceinline__ void get(int u, int v, float (&values)[F::kInputs]) const {
    INGOT_UNROLL
    for (int i = 0; i < F::kInputs; ++i) values[i] = to_float(vectors[u][i].values[v]);
  }
};

/// partials[part, k, channel] = Σ over the part's elements of the channel of the k-th of the values that
/// f.of(channel) gives for the elements of f.in there and the sample.
template <bool last, int vec, int sums, class P, class F>
__global__ void __launch_bounds__(kChannelBlock)
    channel_sums_kernel(const __grid_constant__ Channels x, const __grid_constant__ F f, int across,
                        P* partials) {
  using Walk = ChannelWalk<last, vec>;
  constexpr int kOwn = Walk::kChannels;
  INGOT_SHARED_ARRAY(P, scratch, kOwn * kChannelBlock);
  Walk walk(x, across);
  P total[sums][kOwn] = {};
  if (walk.exists) {
    typename F::Channel channels[kOwn];
    INGOT_UNROLL
    for (int c = 0; c < kOwn; ++c) channels[c] = f.of(walk.channel + c);
    ChannelInputs<F, vec> inputs;
    walk.visit([&](int u, std::int64_t at) { inputs.load(f, u, at); },
               [&](int u, std::int64_t, std::int64_t sample) {
                 INGOT_UNROLL
                 for (int v = 0; v < vec; ++v) {
                   float in[F::kInputs];
                   inputs.get(u, v, in);
                   P values[sums];
                   channels[last ? v : 0](in, sample, values);
                   INGOT_UNROLL
                   for (int k = 0; k < sums; ++k) total[k][last ? v : 0] += values[k];
                 }
               });
  }
  INGOT_UNROLL
  for (int k = 0; k < sums; ++k) {
    sum_rows(total[k], last ? across : 1, scratch);
    if (static_cast<int>(threadIdx.x) >= (last ? across : 1) || walk.channel >= x.channels) continue;
    INGOT_UNROLL
    for (int c = 0; c < kOwn; ++c)
      partials[(std::int64_t{blockIdx.y} * sums + k) * x.channels + walk.channel + c] = total[k][c];
  }
}

inline constexpr int kFinishAcross = 8;  ///< channels to a block of the kernel below

/// finish(channel, sums) for every channel, with the parts added in a fixed order.
template <int sums, class P, class F>
__global__ void __launch_bounds__(kChannelBlock)
    channel_finish_kernel(P* partials, int parts, std::int64_t channels, const __grid_constant__ F finish) {
  INGOT_SHARED_ARRAY(P, scratch, sums * kChannelBlock);
  const int column = static_cast<int>(threadIdx.x) % kFinishAcross;
  const std::int64_t channel = std::int64_t{blockIdx.x} * kFinishAcross + column;
  P total[sums] = {};
  for (int part = static_cast<int>(threadIdx.x) / kFinishAcross; channel < channels && part < parts;
       part += kChannelBlock / kFinishAcross) {
    INGOT_UNROLL
    for (int k = 0; k < sums; ++k) total[k] += partials[(std::int64_t{part} * sums + k) * channels + channel];
  }
  sum_rows(total, kFinishAcross, scratch);
  if (static_cast<int>(threadIdx.x) < kFinishAcross && channel < channels) finish(channel, total);
}

/// Calls finish(channel, sums) with the sums over each channel of x of what f gives. partials: scratch of
/// `most` · sums · channels, most >= 1. finish may write into partials[c + k·channels].
template <int sums, class P, class F, class Finish>
void channel_sums(const LaunchSite& site, const Channels& x, const F& f, P* partials, std::int64_t most,
                  const Finish& finish) {
  if (x.channels == 0) return;
  unsigned parts = 1;
  const auto run = [&]<bool last, int vec>() {
    const ChannelGrid grid = channel_grid<vec>(site.stream.device, x, most);
    parts = grid.blocks.y;
    launch(site, channel_sums_kernel<last, vec, sums, P, F>, grid.blocks, Size3{kChannelBlock}, 0, x, f,
           grid.across, partials);
  };
  by_channel_vectors<typename F::Type>(x, f.in, run);
  const auto blocks = static_cast<unsigned>((x.channels + kFinishAcross - 1) / kFinishAcross);
  launch(site, channel_finish_kernel<sums, P, Finish>, Size3{blocks}, Size3{kChannelBlock}, 0, partials,
         static_cast<int>(parts), x.channels, finish);
}

/// f.out[i] = what f.of(channel) gives for the elements of f.in there, or += with f.accumulate.
template <bool last, int vec, class F>
__global__ void __launch_bounds__(kChannelBlock)
    channel_map_kernel(const __grid_constant__ Channels x, const __grid_constant__ F f, int across) {
  using Walk = ChannelWalk<last, vec>;
  using T = typename F::Type;
  Walk walk(x, across);
  if (!walk.exists) return;
  typename F::Channel channels[Walk::kChannels];
  INGOT_UNROLL
  for (int c = 0; c < Walk::kChannels; ++c) channels[c] = f.of(walk.channel + c);
  ChannelInputs<F, vec> inputs;
  walk.visit([&](int u, std::int64_t at) { inputs.load(f, u, at); },
             [&](int u, std::int64_t at, std::int64_t) {
               Vector<T, vec> out = {};
               if (f.accumulate) out = load_vector<vec>(f.out + at);
               INGOT_UNROLL
               for (int v = 0; v < vec; ++v) {
                 float in[F::kInputs];
                 inputs.get(u, v, in);
                 store(&out.values[v], channels[last ? v : 0](in), f.accumulate);
               }
               store_vector(f.out + at, out);
             });
}

template <class F>
void channel_map(const LaunchSite& site, const Channels& x, const F& f) {
  using T = typename F::Type;
  if (x.total() == 0) return;
  const T* pointers[F::kInputs + 1] = {f.out};
  std::copy_n(f.in, F::kInputs, pointers + 1);
  by_channel_vectors<T>(x, pointers, [&]<bool last, int vec>() {
    const ChannelGrid grid = channel_grid<vec>(site.stream.device, x, 65535);
    launch(site, channel_map_kernel<last, vec, F>, grid.blocks, Size3{kChannelBlock}, 0, x, f, grid.across);
  });
}

}  // namespace ingot::kernels::cuda
