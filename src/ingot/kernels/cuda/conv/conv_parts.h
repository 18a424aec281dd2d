#pragma once

#include <algorithm>

#include "ingot/kernels/conv.h"
#include "ingot/kernels/cuda/conv/channels.h"
#include "ingot/kernels/cuda/conv/image.h"

// What the kernels of convolutions have in common.
namespace ingot::kernels::cuda {

struct ConvProblem {
  Image x, y;
  std::int64_t kh, kw, groups;
  std::int64_t stride[2], padding[2], dilation[2];

  ConvProblem(const View& x_, const View& y_, const View& weight, const ConvGeometry& g)
      : x(x_, g.channels_last),
        y(y_, g.channels_last),
        kh(weight.dim(2)),
        kw(weight.dim(3)),
        groups(g.groups) {
    for (std::size_t i = 0; i < 2; ++i) {
      stride[i] = g.stride[i];
      padding[i] = g.padding[i];
      dilation[i] = g.dilation[i];
    }
  }
  __device__ __forceinline__ std::int64_t taps() const { return kh * kw; }
  std::int64_t filter_taps() const { return kh * kw; }
  std::int64_t inputs() const { return x.c / groups; }  // channels of a group
  std::int64_t outputs() const { return y.c / groups; }
};

/// Of a channel: Σ dy.
template <class T>
struct BiasSum {
  using Type = T;
  static constexpr int kInputs = 1;
  const T* in[kInputs];
  struct Channel {
    __device__ void operator()(const float (&dy)[1], std::int64_t, float (&values)[1]) const {
      values[0] = dy[0];
    }
  };
  __device__ Channel of(std::int64_t) const { return {}; }
};
template <class T>
struct BiasFinish {
  T* dbias;
  bool accumulate;
  __device__ void operator()(std::int64_t channel, const float (&sums)[1]) const {
    store(dbias + channel, sums[0], accumulate);
  }
};

/// dweight and dbias. multiply(problem, positions of a part, parts) launches what sums the gradient of the
/// weight over each part of y's positions into args.scratch, [part, weight].
template <class T, class Multiply>
void run_weight_gradient(const LaunchSite& site, const ConvBackwardWeightArgs& args, Multiply&& multiply) {
  const std::int64_t elements = args.dweight ? args.dweight.numel() : 0;
  const Image y(args.dy, args.geometry.channels_last);
  if (elements > 0) {
    // As many parts as conv_scratch() gave memory for.
    const std::int64_t most = std::clamp<std::int64_t>(args.scratch.numel() / elements, 1, 65535);
    const std::int64_t part_positions = std::max<std::int64_t>(1, (y.positions() + most - 1) / most);
    const auto parts = static_cast<unsigned>(
        std::max<std::int64_t>(1, (y.positions() + part_positions - 1) / part_positions));
    multiply(ConvProblem(args.x, args.dy, args.dweight, args.geometry), part_positions, parts);
    sum_parts(site, args.scratch.as<float>(), static_cast<int>(parts), elements, elements,
              args.dweight.as<T>(), args.accumulate_dweight);
  }
  if (!args.dbias) return;
  const Channels channels{.n = y.n, .channels = y.c, .positions = y.h * y.w, .last = y.last};
  channel_sums<1>(site, channels, BiasSum<T>{{args.dy.as<T>()}}, args.scratch.as<float>(),
                  args.scratch.numel() / std::max<std::int64_t>(y.c, 1),
                  BiasFinish<T>{args.dbias.as<T>(), args.accumulate_dbias});
}

}  // namespace ingot::kernels::cuda
