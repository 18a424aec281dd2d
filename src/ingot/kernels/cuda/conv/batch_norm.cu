#include "ingot/kernels/batch_norm.h"
#include "ingot/kernels/cuda/conv/channels.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

/// x [N, C, S]; S = 1 is channels-last.
Channels channels_of(const View& x) {
  if (x.dim(2) == 1) return {.n = x.dim(0), .channels = x.dim(1), .positions = 1, .last = true};
  return {.n = x.dim(0), .channels = x.dim(1), .positions = x.dim(2), .last = false};
}

/// Of a channel: Σ x, and Σ (x − its first element)², from which the variance follows without a second look.
/// In f64, where what the shift leaves of the mean costs no digit that f32 has.
template <class T>
struct StatisticSums {
  using Type = T;
  static constexpr int kInputs = 1;
  const T* in[kInputs];
  std::int64_t positions;

  struct Channel {
    double shift;
    __device__ void operator()(const float (&x)[1], std::int64_t, double (&values)[2]) const {
      const double apart = static_cast<double>(x[0]) - shift;
      values[0] = static_cast<double>(x[0]);
      values[1] = apart * apart;
    }
  };
  __device__ Channel of(std::int64_t channel) const {
    return {static_cast<double>(to_float(in[0][channel * positions]))};
  }
};
template <class T>
struct StatisticFinish {
  StatisticSums<T> sums_of;
  float *mean, *variance;
  double count;
  __device__ void operator()(std::int64_t channel, const double (&sums)[2]) const {
    const double exact = sums[0] / count;
    const double apart = count > 0 ? exact - sums_of.of(channel).shift : 0.0;
    const double found = sums[1] / count - apart * apart;
    mean[channel] = static_cast<float>(exact);
    variance[channel] = static_cast<float>(found < 0.0 ? 0.0 : found);
  }
};

void run_statistics(const BatchStatisticsArgs& args, Stream stream) {
  const Channels x = channels_of(args.x);
  const std::int64_t parts = args.scratch.numel() / std::max<std::int64_t>(2 * x.channels, 1);
  dispatch_device_float(args.x.dtype, "batch_statistics", [&]<class T>() {
    const StatisticSums<T> sums{{args.x.as<T>()}, x.positions};
    channel_sums<2>({"batch_statistics", stream, args.x}, x, sums, args.scratch.as<double>(), parts,
                    StatisticFinish<T>{sums, args.mean.as<float>(), args.variance.as<float>(),
                                       static_cast<double>(x.n * x.positions)});
  });
}

/// What batch_norm and its gradients know of channels.
struct ChannelStatistics {
  const float *mean, *variance, *weight;  // weight: may be null
  float eps;

  __device__ float rstd(std::int64_t channel) const { return 1.0F / sqrtf(variance[channel] + eps); }
  __device__ float scale(std::int64_t channel) const {
    return weight == nullptr ? rstd(channel) : rstd(channel) * weight[channel];
  }
};

template <class T>
struct Normalised {
  using Type = T;
  static constexpr int kInputs = 1;
  const T* in[kInputs];
  T* out;
  ChannelStatistics statistics;
  const float* bias;  // may be null
  bool accumulate = false;

  struct Channel {
    float mean, scale, bias;
    __device__ float operator()(const float (&x)[1]) const { return (x[0] - mean) * scale + bias; }
  };
  __device__ Channel of(std::int64_t channel) const {
    return {statistics.mean[channel], statistics.scale(channel), bias == nullptr ? 0.0F : bias[channel]};
  }
};

void run_batch_norm(const BatchNormArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "batch_norm", [&]<class T>() {
    channel_map({"batch_norm", stream, args.x}, channels_of(args.x),
                Normalised<T>{.in = {args.x.as<T>()},
                              .out = args.y.as<T>(),
                              .statistics = {.mean = args.mean.as<float>(),
                                             .variance = args.variance.as<float>(),
                                             .weight = args.weight.as<float>(),
                                             .eps = args.eps},
                              .bias = args.bias.as<float>()});
  });
}

/// Of a channel: Σ dy and Σ dy·x̂.
template <class T>
struct BackwardSums {
  using Type = T;
  static constexpr int kInputs = 2;
  const T* in[kInputs];  // x, dy
  ChannelStatistics statistics;

  struct Channel {
    float mean, rstd;
    __device__ void operator()(const float (&x_dy)[2], std::int64_t, double (&values)[2]) const {
      values[0] = static_cast<double>(x_dy[1]);
      values[1] = static_cast<double>(x_dy[1] * ((x_dy[0] - mean) * rstd));
    }
  };
  __device__ Channel of(std::int64_t channel) const {
    return {statistics.mean[channel], statistics.rstd(channel)};
  }
};
struct BackwardFinish {
  float *dweight, *dbias;  // may be null
  double* means;           // [2, C]: of dy and of dy·x̂, 0 where the statistics are constants
  double count;
  std::int64_t channels;
  bool own_statistics, accumulate_dweight, accumulate_dbias;

  __device__ void operator()(std::int64_t channel, const double (&sums)[2]) const {
    if (dbias != nullptr) store(dbias + channel, static_cast<float>(sums[0]), accumulate_dbias);
    if (dweight != nullptr) store(dweight + channel, static_cast<float>(sums[1]), accumulate_dweight);
    means[channel] = own_statistics ? sums[0] / count : 0.0;
    means[channels + channel] = own_statistics ? sums[1] / count : 0.0;
  }
};

/// dx = rstd·w·(dy − mean(dy) − x̂·mean(dy·x̂))
template <class T>
struct InputGradient {
  using Type = T;
  static constexpr int kInputs = 2;
  const T* in[kInputs];  // x, dy
  T* out;
  ChannelStatistics statistics;
  const double* means;
  std::int64_t channels;
  bool accumulate;

  struct Channel {
    float mean, scale, mean_dy, through;
    __device__ float operator()(const float (&x_dy)[2]) const {
      return scale * (x_dy[1] - mean_dy - (x_dy[0] - mean) * through);
    }
  };
  __device__ Channel of(std::int64_t channel) const {
    return {statistics.mean[channel], statistics.scale(channel), static_cast<float>(means[channel]),
            statistics.rstd(channel) * static_cast<float>(means[channels + channel])};
  }
};

template <class T>
void backward(const LaunchSite& site, const BatchNormBackwardArgs& args) {
  const Channels x = channels_of(args.x);
  const ChannelStatistics statistics{.mean = args.mean.as<float>(),
                                     .variance = args.variance.as<float>(),
                                     .weight = args.weight.as<float>(),
                                     .eps = args.eps};
  const BackwardSums<T> sums{{args.x.as<T>(), args.dy.as<T>()}, statistics};
  auto* means = args.scratch.as<double>();
  const std::int64_t parts = args.scratch.numel() / std::max<std::int64_t>(2 * x.channels, 1);
  channel_sums<2>(site, x, sums, means, parts,
                  BackwardFinish{.dweight = args.dweight.as<float>(),
                                 .dbias = args.dbias.as<float>(),
                                 .means = means,
                                 .count = static_cast<double>(x.n * x.positions),
                                 .channels = x.channels,
                                 .own_statistics = args.own_statistics,
                                 .accumulate_dweight = args.accumulate_dweight,
                                 .accumulate_dbias = args.accumulate_dbias});
  if (!args.dx) return;
  channel_map(site, x,
              InputGradient<T>{.in = {args.x.as<T>(), args.dy.as<T>()},
                               .out = args.dx.as<T>(),
                               .statistics = statistics,
                               .means = means,
                               .channels = x.channels,
                               .accumulate = args.accumulate_dx});
}

void run_batch_norm_backward(const BatchNormBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "batch_norm_backward", [&]<class T>() {
    backward<T>({"batch_norm_backward", stream, args.x}, args);
  });
}

}  // namespace

void register_batch_norm() {
  batch_norm.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const BatchNormArgs& args) { return is_device_float(args.x.dtype); }, run_batch_norm});
  batch_norm_backward.add(DeviceType::cuda,
                          {"cuda", ImplKind::cuda,
                           [](const BatchNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
                           run_batch_norm_backward});
  batch_statistics.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const BatchStatisticsArgs& args) { return is_device_float(args.x.dtype); },
       run_statistics});
}

}  // namespace ingot::kernels::cuda
