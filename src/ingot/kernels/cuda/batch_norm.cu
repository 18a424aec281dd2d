#include <initializer_list>

#include "ingot/kernels/batch_norm.h"
#include "ingot/kernels/cuda/channels.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

/// x [N, C, S]; S = 1 is channels-last.
Channels channels_of(const View& x) {
  if (x.dim(2) == 1) return {.n = x.dim(0), .channels = x.dim(1), .places = 1, .last = true};
  return {.n = x.dim(0), .channels = x.dim(1), .places = x.dim(2), .last = false};
}

template <class T>
struct Itself {
  const T* x;
  __device__ void operator()(std::int64_t, std::int64_t, std::int64_t at, double (&values)[1]) const {
    values[0] = static_cast<double>(to_float(x[at]));
  }
};
template <class T>
struct SquaredDistance {
  const T* x;
  const double* mean;
  __device__ void operator()(std::int64_t channel, std::int64_t, std::int64_t at, double (&values)[1]) const {
    const double apart = static_cast<double>(to_float(x[at])) - mean[channel];
    values[0] = apart * apart;
  }
};
/// Writes sum / count, rounded to `rounded` and as it is to `exact`, which may be null.
struct WriteMean {
  float* rounded;
  double* exact;
  double count;
  __device__ void operator()(std::int64_t channel, const double (&sums)[1]) const {
    const double mean = sums[0] / count;
    rounded[channel] = static_cast<float>(mean);
    if (exact != nullptr) exact[channel] = mean;
  }
};

void run_statistics(const BatchStatisticsArgs& args, Stream stream) {
  const Channels x = channels_of(args.x);
  const LaunchSite site{"batch_statistics", stream, args.x};
  const auto count = static_cast<double>(x.n * x.places);
  // The first row of the scratch keeps the mean as it is before it is rounded, for the variance.
  auto* exact = args.scratch.as<double>();
  double* partials = exact + x.channels;
  const std::int64_t parts = args.scratch.numel() / std::max<std::int64_t>(x.channels, 1) - 1;
  dispatch_device_float(args.x.dtype, "batch_statistics", [&]<class T>() {
    channel_sums<1>(site, x, Itself<T>{args.x.as<T>()}, partials, parts,
                    WriteMean{args.mean.as<float>(), exact, count});
    channel_sums<1>(site, x, SquaredDistance<T>{args.x.as<T>(), exact}, partials, parts,
                    WriteMean{args.variance.as<float>(), nullptr, count});
  });
}

/// Calls run.template operator()<vec>() with the number of neighbours to take at a time. Those are of one
/// channel, or channels are last and they are of neighbouring ones.
template <class T, class Run>
void by_packs(const Channels& x, std::initializer_list<const T*> pointers, Run&& run) {
  std::uintptr_t address = 0;
  for (const T* pointer : pointers) address |= reinterpret_cast<std::uintptr_t>(pointer);
  if (address % 16 == 0 && (x.last ? x.channels : x.places) % kPack<T> == 0)
    return run.template operator()<kPack<T>>();
  run.template operator()<1>();
}

template <class T>
struct BatchNormForward {
  const T* x;
  T* y;
  const float *mean, *variance, *weight, *bias;  // weight, bias: may be null
  std::int64_t total, channels, places;
  float eps;
};

template <class T, int vec>
__global__ void batch_norm_kernel(const __grid_constant__ BatchNormForward<T> args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.total / vec;
       i += step) {
    const std::int64_t first = i * vec / args.places % args.channels;
    const Pack<T, vec> x = load_pack<vec>(args.x + i * vec);
    Pack<T, vec> y;
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const std::int64_t channel = args.places == 1 ? first + v : first;
      const float rstd = 1.0F / sqrtf(args.variance[channel] + args.eps);
      const float weight = args.weight == nullptr ? 1.0F : args.weight[channel];
      const float bias = args.bias == nullptr ? 0.0F : args.bias[channel];
      y.values[v] = from_float<T>((to_float(x.values[v]) - args.mean[channel]) * rstd * weight + bias);
    }
    store_pack(args.y + i * vec, y);
  }
}

void run_batch_norm(const BatchNormArgs& args, Stream stream) {
  const Channels x = channels_of(args.x);
  if (x.total() == 0) return;
  dispatch_device_float(args.x.dtype, "batch_norm", [&]<class T>() {
    const BatchNormForward<T> made{.x = args.x.as<T>(),
                                   .y = args.y.as<T>(),
                                   .mean = args.mean.as<float>(),
                                   .variance = args.variance.as<float>(),
                                   .weight = args.weight.as<float>(),
                                   .bias = args.bias.as<float>(),
                                   .total = x.total(),
                                   .channels = x.channels,
                                   .places = x.places,
                                   .eps = args.eps};
    by_packs<T>(x, {made.x, made.y}, [&]<int vec>() {
      launch({"batch_norm", stream, args.x}, batch_norm_kernel<T, vec>,
             Size3{grid_for(stream.device, x.total() / vec, kBlock)}, Size3{kBlock}, 0, made);
    });
  });
}

template <class T>
struct BatchNormBackward {
  const T *x, *dy;
  T* dx;                                  // like the next two, may be null
  const float *mean, *variance, *weight;  // weight: may be null
  float *dweight, *dbias;
  double* means;  // [2, C]: of dy and of dy·x̂, 0 where the statistics are constants
  double count;
  std::int64_t total, channels, places;
  float eps;
  bool own_statistics, accumulate_dx, accumulate_dweight, accumulate_dbias;

  __device__ float rstd(std::int64_t channel) const { return 1.0F / sqrtf(variance[channel] + eps); }
  __device__ float normalised(std::int64_t channel, float value) const {
    return (value - mean[channel]) * rstd(channel);
  }
};

template <class T>
struct BackwardSums {
  BatchNormBackward<T> args;
  __device__ void operator()(std::int64_t channel, std::int64_t, std::int64_t at, double (&values)[2]) const {
    const float dy = to_float(args.dy[at]);
    values[0] = static_cast<double>(dy);
    values[1] = static_cast<double>(dy * args.normalised(channel, to_float(args.x[at])));
  }
};
template <class T>
struct BackwardFinish {
  BatchNormBackward<T> args;
  __device__ void operator()(std::int64_t channel, const double (&sums)[2]) const {
    if (args.dbias != nullptr)
      store(args.dbias + channel, static_cast<float>(sums[0]), args.accumulate_dbias);
    if (args.dweight != nullptr)
      store(args.dweight + channel, static_cast<float>(sums[1]), args.accumulate_dweight);
    args.means[channel] = args.own_statistics ? sums[0] / args.count : 0.0;
    args.means[args.channels + channel] = args.own_statistics ? sums[1] / args.count : 0.0;
  }
};

// dx = rstd·w·(dy − mean(dy) − x̂·mean(dy·x̂)). The elements of a pack are of one channel, or channels are
// last and they are of neighbouring ones.
template <class T, int vec>
__global__ void batch_norm_dx_kernel(const __grid_constant__ BatchNormBackward<T> args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.total / vec;
       i += step) {
    const std::int64_t first = i * vec / args.places % args.channels;
    const Pack<T, vec> x = load_pack<vec>(args.x + i * vec), dy = load_pack<vec>(args.dy + i * vec);
    Pack<T, vec> dx = {};
    if (args.accumulate_dx) dx = load_pack<vec>(args.dx + i * vec);
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) {
      const std::int64_t channel = args.places == 1 ? first + v : first;
      const float weight = args.weight == nullptr ? 1.0F : args.weight[channel];
      const float through = args.normalised(channel, to_float(x.values[v])) *
                            static_cast<float>(args.means[args.channels + channel]);
      const float value = args.rstd(channel) * weight *
                          (to_float(dy.values[v]) - static_cast<float>(args.means[channel]) - through);
      store(&dx.values[v], value, args.accumulate_dx);
    }
    store_pack(args.dx + i * vec, dx);
  }
}

template <class T>
void backward(const LaunchSite& site, const BatchNormBackwardArgs& args) {
  const Channels x = channels_of(args.x);
  const BatchNormBackward<T> made{.x = args.x.as<T>(),
                                  .dy = args.dy.as<T>(),
                                  .dx = args.dx.as<T>(),
                                  .mean = args.mean.as<float>(),
                                  .variance = args.variance.as<float>(),
                                  .weight = args.weight.as<float>(),
                                  .dweight = args.dweight.as<float>(),
                                  .dbias = args.dbias.as<float>(),
                                  .means = args.scratch.as<double>(),
                                  .count = static_cast<double>(x.n * x.places),
                                  .total = x.total(),
                                  .channels = x.channels,
                                  .places = x.places,
                                  .eps = args.eps,
                                  .own_statistics = args.own_statistics,
                                  .accumulate_dx = args.accumulate_dx,
                                  .accumulate_dweight = args.accumulate_dweight,
                                  .accumulate_dbias = args.accumulate_dbias};
  const std::int64_t parts = args.scratch.numel() / std::max<std::int64_t>(2 * x.channels, 1);
  channel_sums<2>(site, x, BackwardSums<T>{made}, args.scratch.as<double>(), parts, BackwardFinish<T>{made});
  if (!args.dx || x.total() == 0) return;
  by_packs<T>(x, {made.x, made.dy, made.dx}, [&]<int vec>() {
    launch(site, batch_norm_dx_kernel<T, vec>, Size3{grid_for(site.stream.device, x.total() / vec, kBlock)},
           Size3{kBlock}, 0, made);
  });
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
