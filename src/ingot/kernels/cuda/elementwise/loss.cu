#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/targets.h"
#include "ingot/kernels/loss.h"
#include "ingot/kernels/optimizer.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 512;
using Block = ThreadGroup<kBlock>;

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
  // In place, by 1 as a rule: that kernel ends where there is nothing to change.
  if (args.x.data == args.y.data && !args.accumulate && args.factor.dtype == DType::f32)
    return ingot::kernels::launch(scale_all, stream, {.tensors = {&args.y, 1}, .factor = args.factor});
  dispatch_device_float(args.x.dtype, "scale_by", [&]<class T>() {
    map<T>({"scale_by", stream, args.x}, std::array{args.x}, std::array{args.y}, {args.accumulate},
           ScaleBy{args.factor.data, args.factor.dtype});
  });
}

}  // namespace

void register_loss() {
  count_targets.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_count_targets});
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
