#include <algorithm>

#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/squeeze_excite.h"

namespace ingot::kernels::cuda {
namespace {

// A block for each sample. What its threads tell each other stands in device memory, where the backward pass
// or the contract wants it anyway; barriers make it visible to the block.

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / kWarp;

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / kWarp; }

template <class T>
struct SqueezeExciteKernel {
  const T *x, *residual, *w1, *b1, *w2, *b2;
  T* y;
  float *pooled, *hidden, *gate;
  std::int64_t n, positions, channels, reduced, pools;
  bool mish;
};

template <class T>
__global__ void squeeze_excite_kernel(const __grid_constant__ SqueezeExciteKernel<T> args) {
  const std::int64_t channels = args.channels, reduced = args.reduced, size = args.positions * channels;
  for (std::int64_t n = blockIdx.x; n < args.n; n += gridDim.x) {
    const T* x = args.x + n * size;
    float* pooled = args.pooled + n * args.pools * channels;
    float* hidden = args.hidden + n * args.pools * reduced;
    float* gate = args.gate + n * channels;
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = 0, most = to_float(x[c]);
      for (std::int64_t s = 0; s < args.positions; ++s) {
        const float value = to_float(x[s * channels + c]);
        sum += value;
        if (value > most || value != value) most = value;  // a NaN stays
      }
      pooled[c] = sum / static_cast<float>(args.positions);
      if (args.pools == 2) pooled[channels + c] = most;
    }
    __syncthreads();
    for (std::int64_t i = warp_of_block(); i < args.pools * reduced; i += kWarps) {
      const std::int64_t r = i % reduced, first = i / reduced * channels;
      float sum = 0;
      for (std::int64_t c = lane_of_warp(); c < channels; c += kWarp)
        sum += to_float(args.w1[r * channels + c]) * pooled[first + c];
      sum = warp_sum(sum) + to_float(args.b1[r]);
      if (lane_of_warp() == 0) hidden[i] = sum < 0.0F ? 0.0F : sum;  // a NaN stays
    }
    __syncthreads();
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = static_cast<float>(args.pools) * to_float(args.b2[c]);
      for (std::int64_t i = 0; i < args.pools * reduced; ++i)
        sum += to_float(args.w2[c * reduced + i % reduced]) * hidden[i];
      gate[c] = sigmoid(sum);
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < size; i += kBlock) {
      const float z = to_float(x[i]) * gate[i % channels] + to_float(args.residual[n * size + i]);
      args.y[n * size + i] = from_float<T>(args.mish ? mish(z) : z);
    }
  }
}

void run_squeeze_excite(const SqueezeExciteArgs& args, Stream stream) {
  if (args.x.dim(0) == 0) return;
  dispatch_device_float(args.x.dtype, "squeeze_excite", [&]<class T>() {
    const SqueezeExciteKernel<T> made{.x = args.x.as<T>(),
                                      .residual = args.residual.as<T>(),
                                      .w1 = args.w1.as<T>(),
                                      .b1 = args.b1.as<T>(),
                                      .w2 = args.w2.as<T>(),
                                      .b2 = args.b2.as<T>(),
                                      .y = args.y.as<T>(),
                                      .pooled = args.pooled.as<float>(),
                                      .hidden = args.hidden.as<float>(),
                                      .gate = args.gate.as<float>(),
                                      .n = args.x.dim(0),
                                      .positions = args.x.dim(1),
                                      .channels = args.x.dim(2),
                                      .reduced = args.w1.dim(0),
                                      .pools = pools_of(args.pool),
                                      .mish = args.activation == NormActivation::mish};
    launch({"squeeze_excite", stream, args.x}, squeeze_excite_kernel<T>,
           Size3{grid_for(stream.device, made.n, 1, 32)}, Size3{kBlock}, 0, made);
  });
}

template <class T>
struct SqueezeExciteBackwardKernel {
  const T *x, *residual, *w1, *w2, *dy;
  const float *pooled, *hidden, *gate;
  T *dx, *dresidual;  // may be null
  float* scratch;     // a row for each block
  std::int64_t n, positions, channels, reduced, pools, row;
  bool mish, accumulate_dx, accumulate_dresidual;
};

/// A block's row of the scratch: what squeeze_excite_scratch() counts.
struct BackwardRow {
  float *dw1, *db1, *dw2, *db2, *dz, *dgate, *dpooled, *sharing, *dhidden;

  __device__ BackwardRow(float* row, std::int64_t positions, std::int64_t channels, std::int64_t reduced,
                         std::int64_t pools)
      : dw1(row),
        db1(dw1 + reduced * channels),
        dw2(db1 + reduced),
        db2(dw2 + reduced * channels),
        dz(db2 + channels),
        dgate(dz + positions * channels),
        dpooled(dgate + channels),
        sharing(dpooled + pools * channels),
        dhidden(sharing + channels) {}
};

// A block sums the weights' gradients over its samples in its row; sum_parts adds the rows up.
template <class T>
__global__ void squeeze_excite_backward_kernel(const __grid_constant__ SqueezeExciteBackwardKernel<T> args) {
  const std::int64_t channels = args.channels, reduced = args.reduced, size = args.positions * channels;
  const BackwardRow row(args.scratch + blockIdx.x * args.row, args.positions, channels, reduced, args.pools);
  for (std::int64_t n = blockIdx.x; n < args.n; n += gridDim.x) {
    const bool adds = n != blockIdx.x, shares = args.pools == 2;
    const float* gate = args.gate + n * channels;
    const float* hidden = args.hidden + n * args.pools * reduced;
    const float* pooled = args.pooled + n * args.pools * channels;
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = 0, sharing = 0;
      for (std::int64_t i = c; i < size; i += channels) {
        const float x = to_float(args.x[n * size + i]);
        const float z = x * gate[c] + to_float(args.residual[n * size + i]);
        row.dz[i] = to_float(args.dy[n * size + i]) * (args.mish ? mish_derivative(z) : 1.0F);
        sum += row.dz[i] * x;
        if (shares && x == pooled[channels + c]) sharing += 1.0F;
      }
      row.dgate[c] = sum * gate[c] * (1.0F - gate[c]);
      row.sharing[c] = sharing;
      store(row.db2 + c, static_cast<float>(args.pools) * row.dgate[c], adds);
    }
    __syncthreads();
    for (std::int64_t i = warp_of_block(); i < args.pools * reduced; i += kWarps) {
      float sum = 0;
      for (std::int64_t c = lane_of_warp(); c < channels; c += kWarp)
        sum += row.dgate[c] * to_float(args.w2[c * reduced + i % reduced]);
      sum = warp_sum(sum);
      if (lane_of_warp() == 0) row.dhidden[i] = hidden[i] <= 0.0F ? 0.0F : sum;
    }
    __syncthreads();
    // Both pools go through the same weights.
    const auto both = [&](const float* a, const float* b, std::int64_t step_a, std::int64_t step_b) {
      return *a * *b + (shares ? a[step_a] * b[step_b] : 0.0F);
    };
    for (std::int64_t r = threadIdx.x; r < reduced; r += kBlock)
      store(row.db1 + r, row.dhidden[r] + (shares ? row.dhidden[reduced + r] : 0.0F), adds);
    for (std::int64_t i = threadIdx.x; i < channels * reduced; i += kBlock) {
      store(row.dw2 + i, both(row.dgate + i / reduced, hidden + i % reduced, 0, reduced), adds);
      store(row.dw1 + i, both(row.dhidden + i / channels, pooled + i % channels, reduced, channels), adds);
    }
    for (std::int64_t i = threadIdx.x; i < args.pools * channels; i += kBlock) {
      const float* dhidden = row.dhidden + i / channels * reduced;
      float sum = 0;
      for (std::int64_t r = 0; r < reduced; ++r)
        sum += dhidden[r] * to_float(args.w1[r * channels + i % channels]);
      row.dpooled[i] = i < channels ? sum / static_cast<float>(args.positions) : sum;
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < size; i += kBlock) {
      const std::int64_t c = i % channels;
      if (args.dx != nullptr) {
        float dx = row.dz[i] * gate[c] + row.dpooled[c];
        if (shares && to_float(args.x[n * size + i]) == pooled[channels + c])
          dx += row.dpooled[channels + c] / row.sharing[c];
        store(args.dx + n * size + i, dx, args.accumulate_dx);
      }
      if (args.dresidual != nullptr)
        store(args.dresidual + n * size + i, row.dz[i], args.accumulate_dresidual);
    }
    __syncthreads();  // dz and dgate are written again for the next sample
  }
}

template <class T>
void backward(const LaunchSite& site, const SqueezeExciteBackwardArgs& args) {
  const std::int64_t channels = args.x.dim(2), reduced = args.w1.dim(0);
  const SqueezeExciteBackwardKernel<T> made{.x = args.x.as<T>(),
                                            .residual = args.residual.as<T>(),
                                            .w1 = args.w1.as<T>(),
                                            .w2 = args.w2.as<T>(),
                                            .dy = args.dy.as<T>(),
                                            .pooled = args.pooled.as<float>(),
                                            .hidden = args.hidden.as<float>(),
                                            .gate = args.gate.as<float>(),
                                            .dx = args.dx.as<T>(),
                                            .dresidual = args.dresidual.as<T>(),
                                            .scratch = args.scratch.as<float>(),
                                            .n = args.x.dim(0),
                                            .positions = args.x.dim(1),
                                            .channels = channels,
                                            .reduced = reduced,
                                            .pools = pools_of(args.pool),
                                            .row = args.scratch.dim(1),
                                            .mish = args.activation == NormActivation::mish,
                                            .accumulate_dx = args.accumulate_dx,
                                            .accumulate_dresidual = args.accumulate_dresidual};
  const auto parts = static_cast<int>(std::min(made.n, args.scratch.dim(0)));
  if (parts > 0)
    launch(site, squeeze_excite_backward_kernel<T>, Size3{static_cast<unsigned>(parts)}, Size3{kBlock}, 0,
           made);
  const auto sum = [&](const View& to, std::int64_t begin, bool accumulate) {
    if (to) sum_parts(site, made.scratch + begin, parts, to.numel(), made.row, to.as<T>(), accumulate);
  };
  sum(args.dw1, 0, args.accumulate_dw1);
  sum(args.db1, reduced * channels, args.accumulate_db1);
  sum(args.dw2, reduced * channels + reduced, args.accumulate_dw2);
  sum(args.db2, 2 * reduced * channels + reduced, args.accumulate_db2);
}

void run_squeeze_excite_backward(const SqueezeExciteBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "squeeze_excite_backward", [&]<class T>() {
    backward<T>({"squeeze_excite_backward", stream, args.x}, args);
  });
}

}  // namespace

void register_squeeze_excite() {
  squeeze_excite.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const SqueezeExciteArgs& args) { return is_device_float(args.x.dtype); },
       run_squeeze_excite});
  squeeze_excite_backward.add(
      DeviceType::cuda, {"cuda", ImplKind::cuda,
                         [](const SqueezeExciteBackwardArgs& args) { return is_device_float(args.x.dtype); },
                         run_squeeze_excite_backward});
}

}  // namespace ingot::kernels::cuda
