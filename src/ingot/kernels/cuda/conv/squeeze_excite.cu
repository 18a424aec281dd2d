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
  std::int64_t n, positions, channels, reduced;
};

template <class T>
__global__ void squeeze_excite_kernel(const __grid_constant__ SqueezeExciteKernel<T> args) {
  const std::int64_t channels = args.channels, reduced = args.reduced, size = args.positions * channels;
  for (std::int64_t n = blockIdx.x; n < args.n; n += gridDim.x) {
    const T* x = args.x + n * size;
    float* pooled = args.pooled + n * channels;
    float* hidden = args.hidden + n * reduced;
    float* gate = args.gate + n * channels;
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = 0;
      for (std::int64_t s = 0; s < args.positions; ++s) sum += to_float(x[s * channels + c]);
      pooled[c] = sum / static_cast<float>(args.positions);
    }
    __syncthreads();
    for (std::int64_t r = warp_of_block(); r < reduced; r += kWarps) {
      float sum = 0;
      for (std::int64_t c = lane_of_warp(); c < channels; c += kWarp)
        sum += to_float(args.w1[r * channels + c]) * pooled[c];
      sum = warp_sum(sum) + to_float(args.b1[r]);
      if (lane_of_warp() == 0) hidden[r] = sum < 0.0F ? 0.0F : sum;  // a NaN stays
    }
    __syncthreads();
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = to_float(args.b2[c]);
      for (std::int64_t r = 0; r < reduced; ++r) sum += to_float(args.w2[c * reduced + r]) * hidden[r];
      gate[c] = sigmoid(sum);
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < size; i += kBlock) {
      const float z = to_float(x[i]) * gate[i % channels] + to_float(args.residual[n * size + i]);
      args.y[n * size + i] = from_float<T>(mish(z));
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
                                      .reduced = args.w1.dim(0)};
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
  std::int64_t n, positions, channels, reduced, row;
  bool accumulate_dx, accumulate_dresidual;
};

/// A block's row of the scratch: what squeeze_excite_scratch() counts.
struct BackwardRow {
  float *dw1, *db1, *dw2, *db2, *dz, *dgate, *dpooled, *dhidden;

  __device__ BackwardRow(float* row, std::int64_t positions, std::int64_t channels, std::int64_t reduced)
      : dw1(row),
        db1(dw1 + reduced * channels),
        dw2(db1 + reduced),
        db2(dw2 + reduced * channels),
        dz(db2 + channels),
        dgate(dz + positions * channels),
        dpooled(dgate + channels),
        dhidden(dpooled + channels) {}
};

// A block sums the weights' gradients over its samples in its row; sum_parts adds the rows up.
template <class T>
__global__ void squeeze_excite_backward_kernel(const __grid_constant__ SqueezeExciteBackwardKernel<T> args) {
  const std::int64_t channels = args.channels, reduced = args.reduced, size = args.positions * channels;
  const BackwardRow row(args.scratch + blockIdx.x * args.row, args.positions, channels, reduced);
  for (std::int64_t n = blockIdx.x; n < args.n; n += gridDim.x) {
    const bool adds = n != blockIdx.x;
    const float* gate = args.gate + n * channels;
    const float* hidden = args.hidden + n * reduced;
    const float* pooled = args.pooled + n * channels;
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = 0;
      for (std::int64_t i = c; i < size; i += channels) {
        const float x = to_float(args.x[n * size + i]);
        const float z = x * gate[c] + to_float(args.residual[n * size + i]);
        row.dz[i] = to_float(args.dy[n * size + i]) * mish_derivative(z);
        sum += row.dz[i] * x;
      }
      row.dgate[c] = sum * gate[c] * (1.0F - gate[c]);
      store(row.db2 + c, row.dgate[c], adds);
    }
    __syncthreads();
    for (std::int64_t r = warp_of_block(); r < reduced; r += kWarps) {
      float sum = 0;
      for (std::int64_t c = lane_of_warp(); c < channels; c += kWarp)
        sum += row.dgate[c] * to_float(args.w2[c * reduced + r]);
      sum = warp_sum(sum);
      if (lane_of_warp() != 0) continue;
      row.dhidden[r] = hidden[r] <= 0.0F ? 0.0F : sum;
      store(row.db1 + r, row.dhidden[r], adds);
    }
    for (std::int64_t i = threadIdx.x; i < channels * reduced; i += kBlock)
      store(row.dw2 + i, row.dgate[i / reduced] * hidden[i % reduced], adds);
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < channels * reduced; i += kBlock)
      store(row.dw1 + i, row.dhidden[i / channels] * pooled[i % channels], adds);
    for (std::int64_t c = threadIdx.x; c < channels; c += kBlock) {
      float sum = 0;
      for (std::int64_t r = 0; r < reduced; ++r) sum += row.dhidden[r] * to_float(args.w1[r * channels + c]);
      row.dpooled[c] = sum / static_cast<float>(args.positions);
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < size; i += kBlock) {
      const std::int64_t c = i % channels;
      if (args.dx != nullptr)
        store(args.dx + n * size + i, row.dz[i] * gate[c] + row.dpooled[c], args.accumulate_dx);
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
                                            .row = args.scratch.dim(1),
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
