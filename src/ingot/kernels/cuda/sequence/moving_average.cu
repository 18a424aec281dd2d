#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/moving_average.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kRun = 16;  // results of a thread: one window summed anew, then it slides

template <class T>
struct MovingAverageKernel {
  const T* x;
  T* y;
  std::int64_t outer, length, inner;
  std::int64_t window, before, after;  // before + 1 + after = window
  bool transposed, accumulate;
};

/// One line of x; positions outside of it read as the end next to them, or where `zeros` as 0.
template <class T>
struct SeriesLine {
  const T* x;
  std::int64_t length, step;
  bool zeros;

  __device__ double at(std::int64_t i) const {
    if (zeros && (i < 0 || i >= length)) return 0;
    const std::int64_t inside = i < 0 ? 0 : i >= length ? length - 1 : i;
    return static_cast<double>(to_float(x[inside * step]));
  }
};

/// What the averages that reach beyond an end give back to it, as the transpose has it: average i repeats the
/// first element before - i times, the last i + after + 1 - length times.
template <class T>
__device__ double beyond(const MovingAverageKernel<T>& args, const SeriesLine<T>& line, std::int64_t j) {
  double sum = 0;
  for (std::int64_t i = 0; j == 0 && i < args.before && i < args.length; ++i)
    sum += static_cast<double>(args.before - i) * line.at(i);
  const std::int64_t first = args.length - args.after;
  for (std::int64_t i = first < 0 ? 0 : first; j == args.length - 1 && i < args.length; ++i)
    sum += static_cast<double>(i + args.after + 1 - args.length) * line.at(i);
  return sum;
}

template <class T>
__global__ void moving_average_kernel(const __grid_constant__ MovingAverageKernel<T> args) {
  const std::int64_t runs = (args.length + kRun - 1) / kRun, step = std::int64_t{gridDim.x} * blockDim.x;
  // The window of result j is [j - back, j + ahead]; the transpose looks the other way.
  const std::int64_t back = args.transposed ? args.after : args.before;
  const std::int64_t ahead = args.transposed ? args.before : args.after;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       k < args.outer * runs * args.inner; k += step) {
    const std::int64_t o = k / args.inner / runs, run = k / args.inner - o * runs;
    const std::int64_t offset = o * args.length * args.inner + k % args.inner;
    const SeriesLine<T> line{args.x + offset, args.length, args.inner, args.transposed};
    const std::int64_t begin = run * kRun, end = begin + kRun < args.length ? begin + kRun : args.length;
    double sum = 0;
    for (std::int64_t i = begin - back; i <= begin + ahead; ++i) sum += line.at(i);
    for (std::int64_t j = begin; j < end; ++j) {
      if (j > begin) sum += line.at(j + ahead) - line.at(j - back - 1);
      const double all = args.transposed ? sum + beyond(args, line, j) : sum;
      store(args.y + offset + j * args.inner, static_cast<float>(all / static_cast<double>(args.window)),
            args.accumulate);
    }
  }
}

void run_moving_average(const MovingAverageArgs& args, Stream stream) {
  if (args.x.numel() == 0) return;
  dispatch_device_float(args.x.dtype, "moving_average", [&]<class T>() {
    const MovingAverageKernel<T> kernel_args{.x = args.x.as<T>(),
                                             .y = args.y.as<T>(),
                                             .outer = args.x.dim(0),
                                             .length = args.x.dim(1),
                                             .inner = args.x.dim(2),
                                             .window = args.window,
                                             .before = args.window / 2,
                                             .after = args.window - 1 - args.window / 2,
                                             .transposed = args.transposed,
                                             .accumulate = args.accumulate};
    const std::int64_t runs = (kernel_args.length + kRun - 1) / kRun;
    const std::int64_t threads = kernel_args.outer * kernel_args.inner * runs;
    launch({"moving_average", stream, args.x}, moving_average_kernel<T>,
           Size3{grid_for(stream.device, threads, kBlock, 32)}, Size3{kBlock}, 0, kernel_args);
  });
}

}  // namespace

void register_moving_average() {
  moving_average.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const MovingAverageArgs& args) { return is_device_float(args.x.dtype); },
       run_moving_average});
}

}  // namespace ingot::kernels::cuda
