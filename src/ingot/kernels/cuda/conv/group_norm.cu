#include <initializer_list>

#include "ingot/kernels/cuda/conv/channels.h"
#include "ingot/kernels/cuda/device/functions.h"
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

  /// Element e of a group's width · positions: its channel, and where it is. Neighbours are neighbours.
  __device__ std::int64_t at(std::int64_t sample, std::int64_t first, std::int64_t e,
                             std::int64_t& channel) const {
    const std::int64_t run = shape.last ? width : shape.positions, outer = e / run, inner = e - outer * run;
    channel = first + (shape.last ? inner : outer);
    return shape.at(sample, channel, shape.last ? outer : inner);
  }
  __device__ float affine(std::int64_t channel, float normalised) const {
    return normalised * to_float(weight[channel]) + to_float(bias[channel]);
  }
};

template <class T, class Args>
GroupNormOperands<T> operands(const Args& args) {
  const int channel = args.channels_last ? 2 : 1, position = args.channels_last ? 1 : 2;
  return {.x = args.x.template as<T>(),
          .weight = args.weight.template as<T>(),
          .bias = args.bias.template as<T>(),
          .shape = {.n = args.x.dim(0),
                    .channels = args.x.dim(channel),
                    .positions = args.x.dim(position),
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

// A thread group for each group of one sample.
template <class T, int size>
__global__ void group_norm_kernel(const __grid_constant__ GroupNormKernel<T> args) {
  const GroupNormOperands<T>& in = args.in;
  const std::int64_t count = in.width * in.shape.positions, rows = in.shape.n * in.groups;
  for (std::int64_t row = ThreadGroup<size>::first_row(); row < rows; row += ThreadGroup<size>::row_step()) {
    const std::int64_t sample = row / in.groups, first = row % in.groups * in.width;
    std::int64_t channel = 0;
    float sum = 0, squares = 0;
    for (std::int64_t e = ThreadGroup<size>::lane(); e < count; e += size)
      sum += to_float(in.x[in.at(sample, first, e, channel)]);
    const float mean = ThreadGroup<size>::sum(sum) / static_cast<float>(count);
    for (std::int64_t e = ThreadGroup<size>::lane(); e < count; e += size) {
      const float apart = to_float(in.x[in.at(sample, first, e, channel)]) - mean;
      squares += apart * apart;
    }
    const float rstd = 1.0F / sqrtf(ThreadGroup<size>::sum(squares) / static_cast<float>(count) + args.eps);
    if (ThreadGroup<size>::lane() == 0) {
      args.mean[row] = mean;
      args.rstd[row] = rstd;
    }
    for (std::int64_t e = ThreadGroup<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float u = in.affine(channel, (to_float(in.x[at]) - mean) * rstd);
      args.y[at] = from_float<T>(in.mish_after ? mish(u) : u);
    }
  }
}

/// How a block lies over one sample, channels last, whose groups are whole vectors: `across` vectors
/// wide, a power of two, on several positions at a time. Each thread keeps what it reads, at most `visits`
/// vectors, so that memory is read once.
struct SampleWalk {
  int across, rows, row, column;
  std::int64_t channel, group;  // the first channel of the thread's vectors
  int group_vectors;

  template <class T>
  __device__ SampleWalk(const GroupNormOperands<T>& in, int across_)
      : across(across_),
        rows(kChannelBlock / across_),
        row(static_cast<int>(threadIdx.x) / across_),
        column(static_cast<int>(threadIdx.x) & (across_ - 1)),
        channel(std::int64_t{column} * kVector<T>),
        group(channel / in.width),
        group_vectors(static_cast<int>(in.width) / kVector<T>) {}

  /// The sum over the thread's group, in a fixed order. `scratch`, `columns`: kChannelBlock values each.
  /// Every thread calls it.
  __device__ __forceinline__ float group_sum(float value, float* scratch, float* columns) const {
    float mine[1] = {value};
    sum_rows(mine, across, scratch);
    if (static_cast<int>(threadIdx.x) < across) columns[threadIdx.x] = mine[0];
    __syncthreads();
    float sum = 0;
    for (int c = 0; c < group_vectors; ++c) sum += columns[group * group_vectors + c];
    return sum;
  }
  /// Calls f(u, where) for the vectors of this thread, number u of which begins `where` elements behind the
  /// sample's first.
  template <int visits, class T, class F>
  __device__ __forceinline__ void each(const GroupNormOperands<T>& in, F&& f) const {
    INGOT_UNROLL
    for (int u = 0; u < visits; ++u) {
      const std::int64_t position = row + std::int64_t{u} * rows;
      if (position < in.shape.positions) f(u, position * in.shape.channels + channel);
    }
  }
};

constexpr int kMostSampleVisits = 10;

/// The `across` of a sample that SampleWalk takes; 0 where it does not.
template <class T>
int sample_across(const GroupNormOperands<T>& in, std::initializer_list<const void*> pointers) {
  std::uintptr_t address = 0;
  for (const void* pointer : pointers) address |= reinterpret_cast<std::uintptr_t>(pointer);
  if (!in.shape.last || address % 16 != 0 || in.width == 0 || in.width % kVector<T> != 0) return 0;
  const std::int64_t across = in.shape.channels / kVector<T>;
  if (across > kChannelBlock || kChannelBlock % across != 0) return 0;
  return in.shape.positions <= kMostSampleVisits * (kChannelBlock / across) ? static_cast<int>(across) : 0;
}

/// Calls f.template operator()<visits>() with as many vectors of a thread as the sample has, or more.
template <class T, class F>
void for_sample_visits(const GroupNormOperands<T>& in, int across, F&& f) {
  constexpr int kFew = kMostSampleVisits / 2;
  if (in.shape.positions <= kFew * (kChannelBlock / across)) return f.template operator()<kFew>();
  f.template operator()<kMostSampleVisits>();
}

template <class T, int visits>
__global__ void __launch_bounds__(kChannelBlock)
    group_norm_samples_kernel(const __grid_constant__ GroupNormKernel<T> args, int across) {
  INGOT_SHARED_ARRAY(float, scratch, kChannelBlock);
  INGOT_SHARED_ARRAY(float, columns, kChannelBlock);
  const GroupNormOperands<T>& in = args.in;
  const SampleWalk walk(in, across);
  const std::int64_t size = in.shape.positions * in.shape.channels;
  const auto count = static_cast<float>(in.width * in.shape.positions);
  for (std::int64_t sample = blockIdx.x; sample < in.shape.n; sample += gridDim.x) {
    const T* x = in.x + sample * size;
    Vector<T, kVector<T>> vectors[visits];
    float sum = 0, squares = 0;
    walk.each<visits>(in, [&](int u, std::int64_t at) {
      vectors[u] = load_vector<kVector<T>>(x + at);
      INGOT_UNROLL
      for (int v = 0; v < kVector<T>; ++v) sum += to_float(vectors[u].values[v]);
    });
    const float mean = walk.group_sum(sum, scratch, columns) / count;
    walk.each<visits>(in, [&](int u, std::int64_t) {
      INGOT_UNROLL
      for (int v = 0; v < kVector<T>; ++v) {
        const float apart = to_float(vectors[u].values[v]) - mean;
        squares += apart * apart;
      }
    });
    const float rstd = 1.0F / sqrtf(walk.group_sum(squares, scratch, columns) / count + args.eps);
    if (walk.row == 0 && walk.column % walk.group_vectors == 0) {
      args.mean[sample * in.groups + walk.group] = mean;
      args.rstd[sample * in.groups + walk.group] = rstd;
    }
    walk.each<visits>(in, [&](int u, std::int64_t at) {
      Vector<T, kVector<T>> out;
      INGOT_UNROLL
      for (int v = 0; v < kVector<T>; ++v) {
        const float a = in.affine(walk.channel + v, (to_float(vectors[u].values[v]) - mean) * rstd);
        out.values[v] = from_float<T>(in.mish_after ? mish(a) : a);
      }
      store_vector(args.y + sample * size + at, out);
    });
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
  const std::int64_t count = in.width * in.shape.positions, rows = in.shape.n * in.groups;
  for (std::int64_t row = ThreadGroup<size>::first_row(); row < rows; row += ThreadGroup<size>::row_step()) {
    const std::int64_t sample = row / in.groups, first = row % in.groups * in.width;
    std::int64_t channel = 0;
    float sum = 0, dot = 0;
    for (std::int64_t e = ThreadGroup<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float hat = args.normalised(row, at);
      const float g = to_float(in.weight[channel]) * args.slope(channel, at, hat);
      sum += g;
      dot += g * hat;
    }
    sum = ThreadGroup<size>::sum(sum) / static_cast<float>(count);
    dot = ThreadGroup<size>::sum(dot) / static_cast<float>(count);
    for (std::int64_t e = ThreadGroup<size>::lane(); e < count; e += size) {
      const std::int64_t at = in.at(sample, first, e, channel);
      const float hat = args.normalised(row, at);
      const float g = to_float(in.weight[channel]) * args.slope(channel, at, hat);
      store(args.dx + at, args.rstd[row] * (g - sum - hat * dot), args.accumulate_dx);
    }
  }
}

// The same by blocks that keep what they read.
template <class T, int visits>
__global__ void __launch_bounds__(kChannelBlock)
    group_norm_dx_samples_kernel(const __grid_constant__ GroupNormBackwardKernel<T> args, int across) {
  INGOT_SHARED_ARRAY(float, scratch, kChannelBlock);
  INGOT_SHARED_ARRAY(float, columns, kChannelBlock);
  const GroupNormOperands<T>& in = args.in;
  const SampleWalk walk(in, across);
  const std::int64_t size = in.shape.positions * in.shape.channels;
  const auto count = static_cast<float>(in.width * in.shape.positions);
  for (std::int64_t sample = blockIdx.x; sample < in.shape.n; sample += gridDim.x) {
    const float mean = args.mean[sample * in.groups + walk.group],
                rstd = args.rstd[sample * in.groups + walk.group];
    Vector<T, kVector<T>> vectors[visits];
    float gradients[visits][kVector<T>];  // w·du
    float sum = 0, dot = 0;
    walk.each<visits>(in, [&](int u, std::int64_t at) {
      vectors[u] = load_vector<kVector<T>>(in.x + sample * size + at);
      const auto dy = load_vector<kVector<T>>(args.dy + sample * size + at);
      INGOT_UNROLL
      for (int v = 0; v < kVector<T>; ++v) {
        const std::int64_t channel = walk.channel + v;
        const float hat = (to_float(vectors[u].values[v]) - mean) * rstd,
                    weight = to_float(in.weight[channel]);
        float g = to_float(dy.values[v]);
        if (in.mish_after) g *= mish_derivative(in.affine(channel, hat));
        gradients[u][v] = weight * g;
        sum += weight * g;
        dot += weight * g * hat;
      }
    });
    sum = walk.group_sum(sum, scratch, columns) / count;
    dot = walk.group_sum(dot, scratch, columns) / count;
    walk.each<visits>(in, [&](int u, std::int64_t at) {
      T* to = args.dx + sample * size + at;
      Vector<T, kVector<T>> out = {};
      if (args.accumulate_dx) out = load_vector<kVector<T>>(to);
      INGOT_UNROLL
      for (int v = 0; v < kVector<T>; ++v) {
        const float hat = (to_float(vectors[u].values[v]) - mean) * rstd;
        store(&out.values[v], rstd * (gradients[u][v] - sum - hat * dot), args.accumulate_dx);
      }
      store_vector(to, out);
    });
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

/// Calls f.template operator()<size>(grid, threads) with the thread group for the groups of `in`, where there
/// are any.
template <class T, class F>
void for_groups(const GroupNormOperands<T>& in, Device device, F&& f) {
  const std::int64_t rows = in.shape.n * in.groups, count = in.width * in.shape.positions;
  if (rows * count == 0) return;
  dispatch_thread_group(count, [&]<int size>() {
    f.template operator()<size>(Size3{grid_of_rows<size>(device, rows)}, Size3{ThreadGroup<size>::kThreads});
  });
}

unsigned sample_blocks(std::int64_t samples) {
  return static_cast<unsigned>(std::min<std::int64_t>(samples, 65535));
}

void run_group_norm(const GroupNormArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "group_norm", [&]<class T>() {
    const GroupNormKernel<T> made{.in = operands<T>(args),
                                  .y = args.y.as<T>(),
                                  .mean = args.mean.as<float>(),
                                  .rstd = args.rstd.as<float>(),
                                  .eps = args.eps};
    if (const int across = sample_across(made.in, {made.in.x, made.y}); across > 0 && made.in.shape.n > 0)
      return for_sample_visits(made.in, across, [&]<int visits>() {
        launch({"group_norm", stream, args.x}, group_norm_samples_kernel<T, visits>,
               Size3{sample_blocks(made.in.shape.n)}, Size3{kChannelBlock}, 0, made, across);
      });
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
    const int across = args.dx ? sample_across(made.in, {made.in.x, made.dy, made.dx}) : 0;
    if (across > 0 && made.in.shape.n > 0)
      for_sample_visits(made.in, across, [&]<int visits>() {
        launch(site, group_norm_dx_samples_kernel<T, visits>, Size3{sample_blocks(made.in.shape.n)},
               Size3{kChannelBlock}, 0, made, across);
      });
    else if (args.dx)
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
