#include "ingot/kernels/cuda/channels.h"
#include "ingot/kernels/cuda/functions.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/group_norm.h"

namespace ingot::kernels::cuda {
namespace {

/// What both directions need of an element.
template <class T>
struct GroupNormOperands {
  const T *x, *weight, *bias;
  Channels shape;
  std::int64_t groups, width;  // width: channels of a group
  bool mish_after;

  /// Element e of a group's width · places: its channel, and where it is. Neighbours are neighbours.
  __device__ std::int64_t at(std::int64_t sample, std::int64_t first, std::int64_t e,
                             std::int64_t& channel) const {
    const std::int64_t run = shape.last ? width : shape.places, outer = e / run, inner = e - outer * run;
    channel = first + (shape.last ? inner : outer);
    return shape.at(sample, channel, shape.last ? outer : inner);
  }
  __device__ float affine(std::int64_t channel, float normalised) const {
    return normalised * to_float(weight[channel]) + to_float(bias[channel]);
  }
};

template <class T, class Args>
GroupNormOperands<T> operands(const Args& args) {
  const int channel = args.channels_last ? 2 : 1, place = args.channels_last ? 1 : 2;
  return {.x = args.x.template as<T>(),
          .weight = args.weight.template as<T>(),
          .bias = args.bias.template as<T>(),
          .shape = {.n = args.x.dim(0),
                    .channels = args.x.dim(channel),
                    .places = args.x.dim(place),
                    .last = args.channels_last},
          .groups = args.groups,
          .width = args.x.dim(channel) / args.groups,
          .mish_after = args.activation == NormActivation::mish};
}

template <class T>
struct GroupNormKernel {
  GroupNormOperands<T> in;
  T* y;
  float *mean, *rstd;
  float eps;
};

// A team for each group of one sample.
template <class T, int size>
__global__ void group_norm_kernel(const __grid_constant__ GroupNormKernel<T> args) {
  const GroupNormOperands<T>& in = args.in;
  const std::int64_t count = in.width * in.shape.places, rows = in.shape.n * in.groups;
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const std::int64_t sample = row / in.groups, first = row % in.groups * in.width;
    std::int64_t channel = 0;
    float sum = 0, squares = 0;
    for (std::int64_t e = Team<size>::lane(); e < count; e += size)
      sum += to_float(in.x[in.at(sample, first, e, channel)]);
    const float mean = Team<size>::sum(sum) / static_cast<float>(count);
    for (std::int64_t e = Team<size>::lane(); e < count; e += size) {
      const float apart = to_float(in.x[in.at(sample, first, e, channel)]) - mean;
      squares += apart * apart;
    }
    const float rstd = 1.0F / sqrtf(Team<size>::sum(squares) / static_cast<float>(count) + args.eps);
    if (Team<size>::lane() == 0) {
      args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
    for (std::int64_t e = Team<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float u = in.affine(channel, (to_float(in.x[at]) - mean) * rstd);
      args.y[at] = from_float<T>(in.mish_after ? mish(u) : u);
    }
  }
}

template <class T>
struct GroupNormBackwardKernel {
  GroupNormOperands<T> in;
  const T* dy;
  const float *mean, *rstd;
  T *dx, *dweight, *dbias;
  bool accumulate_dx, accumulate_dweight, accumulate_dbias;

  /// x̂ of an element, and the gradient before the affine map.
  __device__ float normalised(std::int64_t row, std::int64_t at) const {
    return (to_float(in.x[at]) - mean[row]) * rstd[row];
  }
  __device__ float slope(std::int64_t channel, std::int64_t at, float normalised) const {
    const float g = to_float(dy[at]);
    return in.mish_after ? g * mish_derivative(in.affine(channel, normalised)) : g;
  }
};

// dx = rstd·(w·du − mean(w·du) − x̂·mean(w·du·x̂)), the means over the group.
template <class T, int size>
__global__ void group_norm_dx_kernel(const __grid_constant__ GroupNormBackwardKernel<T> args) {
  const GroupNormOperands<T>& in = args.in;
  const std::int64_t count = in.width * in.shape.places, rows = in.shape.n * in.groups;
  for (std::int64_t row = Team<size>::first_row(); row < rows; row += Team<size>::row_step()) {
    const std::int64_t sample = row / in.groups, first = row % in.groups * in.width;
    std::int64_t channel = 0;
    float sum = 0, dot = 0;
    for (std::int64_t e = Team<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float hat = args.normalised(row, at);
      const float g = to_float(in.weight[channel]) * args.slope(channel, at, hat);
      sum += g;
      dot += g * hat;
    }
    sum = Team<size>::sum(sum) / static_cast<float>(count);
    dot = Team<size>::sum(dot) / static_cast<float>(count);
    for (std::int64_t e = Team<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float hat = args.normalised(row, at);
      const float g = to_float(in.weight[channel]) * args.slope(channel, at, hat);
      store(args.dx + at, args.rstd[row] * (g - sum - hat * dot), args.accumulate_dx);
    }
  }
}

/// Of a channel: Σ du·x̂ and Σ du.
template <class T>
struct AffineSums {
  using Type = T;
  static constexpr int kInputs = 2;
  const T* in[kInputs];  // x, dy
  const T *weight, *bias;
  const float *mean, *rstd;
  std::int64_t groups, width;
  bool mish_after;

  explicit AffineSums(const GroupNormBackwardKernel<T>& args)
      : in{args.in.x, args.dy},
        weight(args.in.weight),
        bias(args.in.bias),
        mean(args.mean),
        rstd(args.rstd),
        groups(args.in.groups),
        width(args.in.width),
        mish_after(args.in.mish_after) {}

  struct Channel {
    const float *mean, *rstd;  // of the channel's group, in the first sample
    std::int64_t groups;
    float weight, bias;
    bool mish_after;
    __device__ void operator()(const float (&x_dy)[2], std::int64_t sample, float (&values)[2]) const {
      const float hat = (x_dy[0] - mean[sample * groups]) * rstd[sample * groups];
      values[1] = mish_after ? x_dy[1] * mish_derivative(hat * weight + bias) : x_dy[1];
      values[0] = values[1] * hat;
    }
  };
  __device__ Channel of(std::int64_t channel) const {
    const std::int64_t group = channel / width;
    return {mean + group, rstd + group, groups, to_float(weight[channel]), to_float(bias[channel]),
            mish_after};
  }
};
template <class T>
struct AffineFinish {
  GroupNormBackwardKernel<T> args;
  __device__ void operator()(std::int64_t channel, const float (&sums)[2]) const {
    if (args.dweight != nullptr) store(args.dweight + channel, sums[0], args.accumulate_dweight);
    if (args.dbias != nullptr) store(args.dbias + channel, sums[1], args.accumulate_dbias);
  }
};

/// Calls f.template operator()<size>(grid, threads) with the team for the groups of `in`, where there are
/// any.
template <class T, class F>
void for_groups(const GroupNormOperands<T>& in, Device device, F&& f) {
  const std::int64_t rows = in.shape.n * in.groups, count = in.width * in.shape.places;
  if (rows * count == 0) return;
  dispatch_team(count, [&]<int size>() {
    f.template operator()<size>(Size3{grid_of_rows<size>(device, rows)}, Size3{Team<size>::kThreads});
  });
}

void run_group_norm(const GroupNormArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "group_norm", [&]<class T>() {
    const GroupNormKernel<T> made{.in = operands<T>(args),
                                  .y = args.y.as<T>(),
                                  .mean = args.mean.as<float>(),
                                  .rstd = args.rstd.as<float>(),
                                  .eps = args.eps};
    for_groups(made.in, stream.device, [&]<int size>(Size3 grid, Size3 block) {
      launch({"group_norm", stream, args.x}, group_norm_kernel<T, size>, grid, block, 0, made);
    });
  });
}

void run_group_norm_backward(const GroupNormBackwardArgs& args, Stream stream) {
  const LaunchSite site{"group_norm_backward", stream, args.x};
  dispatch_device_float(args.x.dtype, "group_norm_backward", [&]<class T>() {
    const GroupNormBackwardKernel<T> made{.in = operands<T>(args),
                                          .dy = args.dy.as<T>(),
                                          .mean = args.mean.as<float>(),
                                          .rstd = args.rstd.as<float>(),
                                          .dx = args.dx.as<T>(),
                                          .dweight = args.dweight.as<T>(),
                                          .dbias = args.dbias.as<T>(),
                                          .accumulate_dx = args.accumulate_dx,
                                          .accumulate_dweight = args.accumulate_dweight,
                                          .accumulate_dbias = args.accumulate_dbias};
    if (args.dx)
      for_groups(made.in, stream.device, [&]<int size>(Size3 grid, Size3 block) {
        launch(site, group_norm_dx_kernel<T, size>, grid, block, 0, made);
      });
    if (!args.dweight && !args.dbias) return;
    const std::int64_t parts = args.scratch.numel() / std::max<std::int64_t>(2 * made.in.shape.channels, 1);
    channel_sums<2>(site, made.in.shape, AffineSums<T>{made}, args.scratch.as<float>(), parts,
                    AffineFinish<T>{made});
  });
}

}  // namespace

void register_group_norm() {
  group_norm.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const GroupNormArgs& args) { return is_device_float(args.x.dtype); }, run_group_norm});
  group_norm_backward.add(DeviceType::cuda,
                          {"cuda", ImplKind::cuda,
                           [](const GroupNormBackwardArgs& args) { return is_device_float(args.x.dtype); },
                           run_group_norm_backward});
}

}  // namespace ingot::kernels::cuda
