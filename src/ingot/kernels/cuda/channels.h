#pragma once

#include <algorithm>

#include "ingot/kernels/cuda/team.h"

// Sums over all that belongs to a channel, in an order that does not depend on chance.
namespace ingot::kernels::cuda {

/// A contiguous tensor [n, channels, places], or [n, places, channels] where `last`.
struct Channels {
  std::int64_t n, channels, places;
  bool last;

  __device__ std::int64_t at(std::int64_t sample, std::int64_t channel, std::int64_t place) const {
    return last ? (sample * places + place) * channels + channel
                : (sample * channels + channel) * places + place;
  }
  std::int64_t total() const { return n * channels * places; }
};

inline constexpr int kChannelBlock = 256;
inline constexpr int kChannelRows = kChannelBlock / kWarp;

/// partials[part, k, channel] = Σ f's k-th value over the part's elements of the channel; f(channel, sample,
/// offset, values) gives `sums` values. Channels last: a warp reads 32 channels of one place.
template <int sums, class P, class F>
__global__ void channel_columns_kernel(Channels x, F f, P* partials) {
  INGOT_SHARED_ARRAY(P, rows, sums * kChannelBlock);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t channel = std::int64_t{blockIdx.x} * kWarp + lane;
  P total[sums] = {};
  for (std::int64_t m = std::int64_t{blockIdx.y} * kChannelRows + row;
       channel < x.channels && m < x.n * x.places; m += std::int64_t{gridDim.y} * kChannelRows) {
    P values[sums];
    f(channel, m / x.places, m * x.channels + channel, values);
    INGOT_UNROLL
    for (int k = 0; k < sums; ++k) total[k] += values[k];
  }
  INGOT_UNROLL
  for (int k = 0; k < sums; ++k) rows[k * kChannelBlock + row * kWarp + lane] = total[k];
  __syncthreads();
  if (row != 0 || channel >= x.channels) return;
  INGOT_UNROLL
  for (int k = 0; k < sums; ++k) {
    P sum = 0;
    for (int i = 0; i < kChannelRows; ++i) sum += rows[k * kChannelBlock + i * kWarp + lane];
    partials[(std::int64_t{blockIdx.y} * sums + k) * x.channels + channel] = sum;
  }
}

/// The same where the places of a channel are neighbours: a block works on one channel.
template <int sums, class P, class F>
__global__ void channel_lines_kernel(Channels x, F f, P* partials) {
  const std::int64_t channel = blockIdx.x;
  P total[sums] = {};
  for (std::int64_t m = std::int64_t{blockIdx.y} * kChannelBlock + threadIdx.x; m < x.n * x.places;
       m += std::int64_t{gridDim.y} * kChannelBlock) {
    const std::int64_t sample = m / x.places;
    P values[sums];
    f(channel, sample, x.at(sample, channel, m - sample * x.places), values);
    INGOT_UNROLL
    for (int k = 0; k < sums; ++k) total[k] += values[k];
  }
  INGOT_UNROLL
  for (int k = 0; k < sums; ++k) {
    const P sum = Team<kChannelBlock>::sum(total[k]);
    if (threadIdx.x == 0) partials[(std::int64_t{blockIdx.y} * sums + k) * x.channels + channel] = sum;
  }
}

/// finish(channel, sums) for every channel, with the parts added in their order.
template <int sums, class P, class F>
__global__ void channel_finish_kernel(P* partials, int parts, std::int64_t channels, F finish) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; c < channels; c += step) {
    P total[sums] = {};
    for (int part = 0; part < parts; ++part) {
      INGOT_UNROLL
      for (int k = 0; k < sums; ++k) total[k] += partials[(std::int64_t{part} * sums + k) * channels + c];
    }
    finish(c, total);
  }
}

/// Calls finish(channel, sums) with the sums over each channel of x of what f gives. partials: scratch of
/// `most` · sums · channels, most >= 1. finish may write into partials[c + k·channels].
template <int sums, class P, class F, class Finish>
void channel_sums(const LaunchSite& site, const Channels& x, const F& f, P* partials, std::int64_t most,
                  const Finish& finish) {
  if (x.channels == 0) return;
  constexpr std::int64_t kShare = 16;  // elements of a thread that are worth a block more
  const std::int64_t elements = x.n * x.places;
  const std::int64_t share = kShare * (x.last ? kChannelRows : kChannelBlock);
  const auto parts = static_cast<unsigned>(
      std::clamp<std::int64_t>(elements / share, 1, std::min<std::int64_t>(most, 1024)));
  if (x.last) {
    const auto tiles = static_cast<unsigned>((x.channels + kWarp - 1) / kWarp);
    launch(site, channel_columns_kernel<sums, P, F>, Size3{tiles, parts}, Size3{kChannelBlock}, 0, x, f,
           partials);
  } else {
    launch(site, channel_lines_kernel<sums, P, F>, Size3{static_cast<unsigned>(x.channels), parts},
           Size3{kChannelBlock}, 0, x, f, partials);
  }
  launch(site, channel_finish_kernel<sums, P, Finish>, Size3{grid_for(site.stream.device, x.channels, 128)},
         Size3{128}, 0, partials, static_cast<int>(parts), x.channels, finish);
}

}  // namespace ingot::kernels::cuda
