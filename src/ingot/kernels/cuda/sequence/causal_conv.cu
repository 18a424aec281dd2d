#include "ingot/kernels/causal_conv.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

template <class T>
struct CausalConvKernel {
  const T *x, *weight, *bias, *past;  // x: dy where the input gradient is computed
  const std::int32_t* starts;
  T* y;
  std::int64_t batch, length, channels, taps;
  bool accumulate;

  __device__ std::int64_t first_seen(std::int64_t row) const {
    return starts != nullptr && starts[row] > 0 ? std::int64_t{starts[row]} : 0;
  }
};

// sums += weight[c.., tap] · row[c..].
template <class T, int vec>
__device__ __forceinline__ void add_tap(const CausalConvKernel<T>& args, std::int64_t c, std::int64_t tap,
                                        const T* row, float (&sums)[vec]) {
  const Vector<T, vec> vector = load_vector<vec>(row + c);
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v)
    sums[v] += to_float(args.weight[(c + v) * args.taps + tap]) * to_float(vector.values[v]);
}

// A thread for `vec` neighbouring channels of a step; what it reads of the steps before is in the cache, as
// their threads read it too.
template <class T, int vec, bool gradient>
__global__ void causal_conv_kernel(const __grid_constant__ CausalConvKernel<T> args) {
  const std::int64_t vectors = args.channels / vec, all = args.batch * args.length * vectors;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i / vectors, c = (i - row * vectors) * vec;
    const std::int64_t b = row / args.length, t = row - b * args.length;
    const T* x = args.x + b * args.length * args.channels;
    float sums[vec] = {};
    if constexpr (gradient) {
      for (std::int64_t k = 0; k < args.taps && t + k < args.length; ++k)
        if (args.first_seen(row + k) <= t)
          add_tap(args, c, args.taps - 1 - k, x + (t + k) * args.channels, sums);
    } else {
      const std::int64_t first = args.first_seen(row);
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) sums[v] = args.bias != nullptr ? to_float(args.bias[c + v]) : 0.0F;
      for (std::int64_t k = 0; k < args.taps; ++k) {
        const std::int64_t s = t - args.taps + 1 + k;
        if (s >= first) {
          add_tap(args, c, k, x + s * args.channels, sums);
        } else if (s < 0 && args.past != nullptr) {
          add_tap(args, c, k, args.past + (b * (args.taps - 1) + s + args.taps - 1) * args.channels, sums);
        }
      }
    }
    T* y = args.y + row * args.channels + c;
    Vector<T, vec> vector = {};
    if (args.accumulate) vector = load_vector<vec>(y);
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v)
      vector.values[v] = from_float<T>(args.accumulate ? to_float(vector.values[v]) + sums[v] : sums[v]);
    store_vector(y, vector);
  }
}

template <class T, bool gradient>
void launch_conv(const CausalConvKernel<T>& args, const View& x, Stream stream) {
  const std::int64_t all = args.batch * args.length * args.channels;
  if (all == 0) return;
  const auto run = [&]<int vec>() {
    launch({gradient ? "causal_conv_backward" : "causal_conv", stream, x},
           causal_conv_kernel<T, vec, gradient>, Size3{grid_for(stream.device, all / vec, kBlock)},
           Size3{kBlock}, 0, args);
  };
  const auto address = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.y) |
                       reinterpret_cast<std::uintptr_t>(args.past);
  if (address % 16 == 0 && args.channels % kVector<T> == 0) return run.template operator()<kVector<T>>();
  run.template operator()<1>();
}

void run_causal_conv(const CausalConvArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "causal_conv", [&]<class T>() {
    launch_conv<T, false>({.x = args.x.as<T>(),
                           .weight = args.weight.as<T>(),
                           .bias = args.bias ? args.bias.as<T>() : nullptr,
                           .past = args.past ? args.past.as<T>() : nullptr,
                           .starts = args.starts ? args.starts.as<std::int32_t>() : nullptr,
                           .y = args.y.as<T>(),
                           .batch = args.x.dim(0),
                           .length = args.x.dim(1),
                           .channels = args.x.dim(2),
                           .taps = args.weight.dim(1),
                           .accumulate = false},
                          args.x, stream);
  });
}

constexpr int kLanes = 32, kRowLanes = 8, kTapsAtOnce = 4;

// Sums of a part's rows: of dy · x for each tap, and behind those of dy. A block has 32 channels and four
// taps; its row lanes sum every eighth row, and are added in their order.
template <class T>
__global__ void causal_conv_sums_kernel(const __grid_constant__ CausalConvKernel<T> args, const T* x,
                                        float* partials) {
  INGOT_SHARED_ARRAY(float, shared, kRowLanes* kLanes);
  const int lane = static_cast<int>(threadIdx.x), row_lane = static_cast<int>(threadIdx.y);
  const std::int64_t c = std::int64_t{blockIdx.x} * kLanes + lane, rows = args.batch * args.length;
  const std::int64_t first_tap = std::int64_t{blockIdx.z} * kTapsAtOnce;
  float sums[kTapsAtOnce] = {};
  const std::int64_t step = std::int64_t{gridDim.y} * kRowLanes;
  for (std::int64_t row = std::int64_t{blockIdx.y} * kRowLanes + row_lane; c < args.channels && row < rows;
       row += step) {
    const float dy = to_float(args.x[row * args.channels + c]);
    const std::int64_t t = row % args.length, first = args.first_seen(row);
    INGOT_UNROLL
    for (int i = 0; i < kTapsAtOnce; ++i) {
      const std::int64_t back = args.taps - 1 - first_tap - i;  // −1: the bias
      if (back == -1) sums[i] += dy;
      if (back >= 0 && t - back >= first) sums[i] += dy * to_float(x[(row - back) * args.channels + c]);
    }
  }
  INGOT_UNROLL
  for (int i = 0; i < kTapsAtOnce; ++i) {
    __syncthreads();
    shared[row_lane * kLanes + lane] = sums[i];
    __syncthreads();
    if (row_lane > 0 || c >= args.channels || first_tap + i > args.taps) continue;
    float total = 0;
    for (int r = 0; r < kRowLanes; ++r) total += shared[r * kLanes + lane];
    partials[(blockIdx.y * (args.taps + 1) + first_tap + i) * args.channels + c] = total;
  }
}

template <class T>
__global__ void causal_conv_add_kernel(const float* partials, std::int64_t parts, std::int64_t channels,
                                       std::int64_t taps, T* dweight, T* dbias, bool accumulate_dweight,
                                       bool accumulate_dbias) {
  const std::int64_t n = (taps + 1) * channels, step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const std::int64_t tap = i / channels, c = i - tap * channels;
    float sum = 0;
    for (std::int64_t p = 0; p < parts; ++p) sum += partials[p * n + i];
    if (tap < taps && dweight != nullptr) store(dweight + c * taps + tap, sum, accumulate_dweight);
    if (tap == taps && dbias != nullptr) store(dbias + c, sum, accumulate_dbias);
  }
}

void run_causal_conv_backward(const CausalConvBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.dy.dtype, "causal_conv_backward", [&]<class T>() {
    CausalConvKernel<T> kernel_args{.x = args.dy.as<T>(),
                                    .weight = args.weight.as<T>(),
                                    .bias = nullptr,
                                    .past = nullptr,
                                    .starts = args.starts ? args.starts.as<std::int32_t>() : nullptr,
                                    .y = args.dx ? args.dx.as<T>() : nullptr,
                                    .batch = args.dy.dim(0),
                                    .length = args.dy.dim(1),
                                    .channels = args.dy.dim(2),
                                    .taps = args.weight.dim(1),
                                    .accumulate = args.accumulate_dx};
    if (args.dx) launch_conv<T, true>(kernel_args, args.dy, stream);
    if (!args.dweight && !args.dbias) return;
    const std::int64_t parts = args.scratch.dim(0), channels = kernel_args.channels, taps = kernel_args.taps;
    auto* partials = args.scratch.as<float>();
    launch({"causal_conv_backward", stream, args.dy}, causal_conv_sums_kernel<T>,
           Size3{static_cast<unsigned>((channels + kLanes - 1) / kLanes), static_cast<unsigned>(parts),
                 static_cast<unsigned>(taps / kTapsAtOnce + 1)},
           Size3{kLanes, kRowLanes}, 0, kernel_args, args.x.as<T>(), partials);
    launch({"causal_conv_backward", stream, args.dy}, causal_conv_add_kernel<T>,
           Size3{grid_for(stream.device, (taps + 1) * channels, kBlock)}, Size3{kBlock}, 0, partials, parts,
           channels, taps, args.dweight ? args.dweight.as<T>() : nullptr,
           args.dbias ? args.dbias.as<T>() : nullptr, args.accumulate_dweight, args.accumulate_dbias);
  });
}

}  // namespace

void register_causal_conv() {
  causal_conv.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                     [](const CausalConvArgs& args) { return is_device_float(args.x.dtype); },
                                     run_causal_conv});
  causal_conv_backward.add(DeviceType::cuda,
                           {"cuda", ImplKind::cuda,
                            [](const CausalConvBackwardArgs& args) { return is_device_float(args.dy.dtype); },
                            run_causal_conv_backward});
}

}  // namespace ingot::kernels::cuda
