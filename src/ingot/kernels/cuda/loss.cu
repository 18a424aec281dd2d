#include "ingot/kernels/cuda/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/loss.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 512;
using Block = Team<kBlock>;

/// Targets of rows, i64 or i32.
struct Targets {
  const void* data;
  std::int64_t stride;
  bool wide;

  explicit Targets(const View& view)
      : data(view.data), stride(view.stride(0)), wide(view.dtype == DType::i64) {}
  __device__ std::int64_t at(std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i * stride]
                : static_cast<const std::int32_t*>(data)[i * stride];
  }
};

// One block: a batch has thousands of targets, not millions. A kernel cannot throw: a target outside of the
// classes makes the count, and with it the loss, a NaN.
__global__ void count_targets_kernel(Targets targets, std::int64_t n, std::int64_t classes,
                                     std::int64_t ignored, float* count) {
  float valid = 0;
  for (std::int64_t i = Block::lane(); i < n; i += kBlock) {
    const std::int64_t target = targets.at(i);
    if (target != ignored) valid += target >= 0 && target < classes ? 1.0F : NAN;
  }
  valid = Block::sum(valid);
  if (Block::lane() == 0) *count = valid;
}

void run_count_targets(const CountTargetsArgs& args, Stream stream) {
  launch({"count_targets", stream, args.targets}, count_targets_kernel, Size3{1}, Size3{kBlock}, 0,
         Targets(args.targets), args.targets.dim(0), args.classes, args.ignore_index, args.count.as<float>());
}

template <class T>
__device__ __forceinline__ float capped(T x, float softcap) {
  const float value = to_float(x);
  return softcap > 0.0F ? softcap * tanhf(value / softcap) : value;
}

/// The gradient of one logit, before the factor of the row.
__device__ __forceinline__ float logit_gradient(float value, bool is_target, std::int64_t n, float lse,
                                                const CrossEntropyOptions& options) {
  float d = (1.0F + 2.0F * options.z_loss * lse) * expf(value - lse) -
            options.label_smoothing / static_cast<float>(n);
  if (is_target) d -= 1.0F - options.label_smoothing;
  if (options.softcap > 0.0F) d *= 1.0F - value / options.softcap * (value / options.softcap);
  return d;
}

template <class T>
struct CrossEntropyKernel {
  const T* logits;
  T* dlogits;  // may be null, or logits
  Targets targets;
  float *loss, *lse;  // lse may be null
  const float* denominator;
  std::int64_t rows, n, row_stride, drow_stride;
  CrossEntropyOptions options;
};

template <class T, int size>
__global__ void cross_entropy_kernel(const __grid_constant__ CrossEntropyKernel<T> args) {
  const std::int64_t n = args.n;
  const float softcap = args.options.softcap, smoothing = args.options.label_smoothing;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* x = args.logits + row * args.row_stride;
    const std::int64_t target = args.targets.at(row);
    const bool ignored = target == args.options.ignore_index, known = target >= 0 && target < n;
    // Before anything is written: dlogits may be logits, and the sums below hold everybody up.
    const float at_target = known ? capped(x[target], softcap) : NAN;
    float top = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t j = Team<size>::lane(); j < n; j += size) top = fmaxf(top, capped(x[j], softcap));
    top = Team<size>::max(top);
    for (std::int64_t j = Team<size>::lane(); j < n; j += size) {
      const float value = capped(x[j], softcap);
      sum += expf(value - top);
      mean += value;
    }
    const float lse = top + logf(Team<size>::sum(sum));
    mean = Team<size>::sum(mean) / static_cast<float>(n);
    if (Team<size>::lane() == 0) {
      const float loss =
          lse - (1.0F - smoothing) * at_target - smoothing * mean + args.options.z_loss * lse * lse;
      args.loss[row] = ignored ? 0.0F : loss;
      if (args.lse != nullptr) args.lse[row] = lse;
    }
    if (args.dlogits == nullptr) continue;
    const float factor = args.denominator == nullptr ? 1.0F : 1.0F / *args.denominator;
    T* dx = args.dlogits + row * args.drow_stride;
    for (std::int64_t j = Team<size>::lane(); j < n; j += size) {
      const float d = logit_gradient(capped(x[j], softcap), j == target, n, lse, args.options);
      dx[j] = from_float<T>(ignored ? 0.0F : d * factor);
    }
  }
}

void run_cross_entropy(const CrossEntropyArgs& args, Stream stream) {
  const std::int64_t rows = args.logits.dim(0);
  if (rows == 0) return;
  dispatch_device_float(args.logits.dtype, "cross_entropy", [&]<class T>() {
    const CrossEntropyKernel<T> kernel_args{.logits = args.logits.as<T>(),
                                            .dlogits = args.dlogits.as<T>(),
                                            .targets = Targets(args.targets),
                                            .loss = args.loss.as<float>(),
                                            .lse = args.lse.as<float>(),
                                            .denominator = args.denominator.as<float>(),
                                            .rows = rows,
                                            .n = args.logits.dim(1),
                                            .row_stride = args.logits.stride(0),
                                            .drow_stride = args.dlogits ? args.dlogits.stride(0) : 0,
                                            .options = args.options};
    const auto run = [&]<int size>() {
      launch({"cross_entropy", stream, args.logits}, cross_entropy_kernel<T, size>,
             Size3{grid_for(stream.device, rows, 1, 32)}, Size3{size}, 0, kernel_args);
    };
    if (kernel_args.n <= 1024) return run.template operator()<128>();
    run.template operator()<kBlock>();
  });
}

template <class T>
struct CrossEntropyBackwardKernel {
  const T* logits;
  T* dlogits;
  Targets targets;
  const float *lse, *dloss, *denominator;
  std::int64_t rows, n, row_stride, drow_stride;
  bool one_dloss, accumulate;
  CrossEntropyOptions options;
};

template <class T>
__global__ void cross_entropy_backward_kernel(const __grid_constant__ CrossEntropyBackwardKernel<T> args) {
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* x = args.logits + row * args.row_stride;
    T* dx = args.dlogits + row * args.drow_stride;
    const std::int64_t target = args.targets.at(row);
    const float scale = args.denominator == nullptr ? 1.0F : 1.0F / *args.denominator;
    const float factor = args.dloss[args.one_dloss ? 0 : row] * scale, lse = args.lse[row];
    for (std::int64_t j = threadIdx.x; j < args.n; j += blockDim.x) {
      const float d =
          logit_gradient(capped(x[j], args.options.softcap), j == target, args.n, lse, args.options);
      store(dx + j, target == args.options.ignore_index ? 0.0F : d * factor, args.accumulate);
    }
  }
}

void run_cross_entropy_backward(const CrossEntropyBackwardArgs& args, Stream stream) {
  const std::int64_t rows = args.logits.dim(0);
  if (rows == 0) return;
  dispatch_device_float(args.logits.dtype, "cross_entropy_backward", [&]<class T>() {
    const CrossEntropyBackwardKernel<T> kernel_args{.logits = args.logits.as<T>(),
                                                    .dlogits = args.dlogits.as<T>(),
                                                    .targets = Targets(args.targets),
                                                    .lse = args.lse.as<float>(),
                                                    .dloss = args.dloss.as<float>(),
                                                    .denominator = args.denominator.as<float>(),
                                                    .rows = rows,
                                                    .n = args.logits.dim(1),
                                                    .row_stride = args.logits.stride(0),
                                                    .drow_stride = args.dlogits.stride(0),
                                                    .one_dloss = args.dloss.numel() == 1,
                                                    .accumulate = args.accumulate,
                                                    .options = args.options};
    launch({"cross_entropy_backward", stream, args.logits}, cross_entropy_backward_kernel<T>,
           Size3{grid_for(stream.device, rows, 1, 32)}, Size3{kernel_args.n <= 1024 ? 128U : kBlock}, 0,
           kernel_args);
  });
}

// One block, in f64: losses of the rows of a batch. The order of summation is always the same.
__global__ void total_kernel(const float* x, std::int64_t n, const float* denominator, float* y) {
  double sum = 0;
  for (std::int64_t i = Block::lane(); i < n; i += kBlock) sum += static_cast<double>(x[i]);
  sum = Block::sum(sum);
  if (Block::lane() != 0) return;
  const double by = denominator == nullptr ? 1.0 : static_cast<double>(*denominator);
  *y = by == 0.0 ? 0.0F : static_cast<float>(sum / by);
}

void run_total(const TotalArgs& args, Stream stream) {
  launch({"total", stream, args.x}, total_kernel, Size3{1}, Size3{kBlock}, 0, args.x.as<float>(),
         args.x.numel(), args.denominator.as<float>(), args.y.as<float>());
}

/// y = x · factor[0], the factor in device memory.
struct ScaleBy {
  const void* factor;
  DType dtype;
  template <int vec>
  __device__ void operator()(const float (&in)[1][vec], float (&out)[1][vec]) const {
    const float by = dtype == DType::f32   ? *static_cast<const float*>(factor)
                     : dtype == DType::f16 ? to_float(*static_cast<const half_t*>(factor))
                                           : to_float(*static_cast<const bfloat_t*>(factor));
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v) out[0][v] = in[0][v] * by;
  }
};

void run_scale_by(const ScaleByArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "scale_by", [&]<class T>() {
    map<T>({"scale_by", stream, args.x}, std::array{args.x}, std::array{args.y}, {args.accumulate},
           ScaleBy{args.factor.data, args.factor.dtype});
  });
}

}  // namespace

void register_loss() {
  count_targets.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_count_targets});
  cross_entropy.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const CrossEntropyArgs& args) { return is_device_float(args.logits.dtype); }, run_cross_entropy});
  cross_entropy_backward.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                                [](const CrossEntropyBackwardArgs& args) {
                                                  return is_device_float(args.logits.dtype);
                                                },
                                                run_cross_entropy_backward});
  total.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                               [](const TotalArgs& args) { return args.x.dtype == DType::f32; }, run_total});
  scale_by.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                  [](const ScaleByArgs& args) {
                                    return is_device_float(args.x.dtype) &&
                                           is_device_float(args.factor.dtype);
                                  },
                                  run_scale_by});
}

}  // namespace ingot::kernels::cuda
