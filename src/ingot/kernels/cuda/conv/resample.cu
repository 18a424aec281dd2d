#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/resample.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

struct ResampleKernelArgs {
  const void* x;
  const std::int32_t* indices;
  const float* weights;
  void* y;
  std::int64_t total, m, n, inner, taps;
  bool accumulate;
};

// A thread for each result: neighbours read neighbours of x, or the same ones.
template <class T>
__global__ void resample_kernel(const __grid_constant__ ResampleKernelArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < args.total; k += step) {
    const std::int64_t row = k / args.inner, outer = row / args.n, i = row - outer * args.n;
    const T* x = static_cast<const T*>(args.x) + outer * args.m * args.inner + (k - row * args.inner);
    float sum = 0;
    for (std::int64_t t = 0; t < args.taps; ++t) {
      const std::int64_t at = t * args.n + i;
      sum += args.weights[at] * to_float(x[args.indices[at] * args.inner]);
    }
    store(static_cast<T*>(args.y) + k, sum, args.accumulate);
  }
}

void run_resample(const ResampleArgs& args, Stream stream) {
  const ResampleKernelArgs kernel_args{.x = args.x.data,
                                       .indices = args.indices.as<std::int32_t>(),
                                       .weights = args.weights.as<float>(),
                                       .y = args.y.data,
                                       .total = args.y.numel(),
                                       .m = args.x.dim(1),
                                       .n = args.y.dim(1),
                                       .inner = args.y.dim(2),
                                       .taps = args.indices.dim(0),
                                       .accumulate = args.accumulate};
  if (kernel_args.total == 0) return;
  dispatch_device_float(args.x.dtype, "resample", [&]<class T>() {
    launch({"resample", stream, args.x}, resample_kernel<T>,
           Size3{grid_for(stream.device, kernel_args.total, kBlock)}, Size3{kBlock}, 0, kernel_args);
  });
}

}  // namespace

void register_resample() {
  resample.add(DeviceType::cuda,
               {"cuda", ImplKind::cuda,
                [](const ResampleArgs& args) { return is_device_float(args.x.dtype); }, run_resample});
}

}  // namespace ingot::kernels::cuda
