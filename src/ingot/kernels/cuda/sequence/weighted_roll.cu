#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/weighted_roll.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

template <class T>
struct WeightedRollKernel {
  const T *x, *weights;
  const std::int64_t* delays;
  T* y;
  std::int64_t rows, length, width, count;
  bool transposed, accumulate;
};

// A thread for `vec` neighbours of y: what it reads of a delay is a row that its neighbours read too.
template <class T, int vec>
__global__ void weighted_roll_kernel(const __grid_constant__ WeightedRollKernel<T> args) {
  const std::int64_t vectors = args.width / vec, step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < args.rows * vectors;
       k += step) {
    const std::int64_t row = k / vectors, at = (k - row * vectors) * vec;
    const std::int64_t b = row / args.length, t = row - b * args.length;
    float sums[vec] = {};
    for (std::int64_t i = b * args.count; i < (b + 1) * args.count; ++i) {
      std::int64_t from = args.transposed ? t - args.delays[i] : t + args.delays[i];
      from += from < 0 ? args.length : from >= args.length ? -args.length : 0;
      const float weight = to_float(args.weights[i]);
      const Vector<T, vec> vector = load_vector<vec>(args.x + (b * args.length + from) * args.width + at);
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) sums[v] += weight * to_float(vector.values[v]);
    }
    T* y = args.y + row * args.width + at;
    Vector<T, vec> vector = {};
    if (args.accumulate) vector = load_vector<vec>(y);
    INGOT_UNROLL
    for (int v = 0; v < vec; ++v)
      vector.values[v] = from_float<T>(args.accumulate ? to_float(vector.values[v]) + sums[v] : sums[v]);
    store_vector(y, vector);
  }
}

void run_delayed_sum(const WeightedRollArgs& args, Stream stream) {
  const std::int64_t width = args.x.dim(2), rows = args.x.dim(0) * args.x.dim(1);
  if (rows * width == 0) return;
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.x.data) | reinterpret_cast<std::uintptr_t>(args.y.data);
  dispatch_device_float(args.x.dtype, "weighted_roll", [&]<class T>() {
    const WeightedRollKernel<T> kernel_args{.x = args.x.as<T>(),
                                            .weights = args.weights.as<T>(),
                                            .delays = args.delays.as<std::int64_t>(),
                                            .y = args.y.as<T>(),
                                            .rows = rows,
                                            .length = args.x.dim(1),
                                            .width = width,
                                            .count = args.delays.dim(1),
                                            .transposed = args.transposed,
                                            .accumulate = args.accumulate};
    const auto run = [&]<int vec>() {
      launch({"weighted_roll", stream, args.x}, weighted_roll_kernel<T, vec>,
             Size3{grid_for(stream.device, rows * width / vec, kBlock)}, Size3{kBlock}, 0, kernel_args);
    };
    if (address % 16 == 0 && width % kVector<T> == 0) return run.template operator()<kVector<T>>();
    run.template operator()<1>();
  });
}

// A block for each delay. Both operands are one run but for the index where x goes around the circle.
template <class T>
__global__ void weighted_roll_dot_kernel(const T* x, const T* dy, const std::int64_t* delays, T* y,
                                         std::int64_t items, std::int64_t count, std::int64_t length,
                                         std::int64_t width, bool accumulate) {
  const std::int64_t n = length * width;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const T* from = x + item / count * n;
    const T* with = dy + item / count * n;
    const std::int64_t shift = delays[item] * width;
    double sum = 0;
    for (std::int64_t i = ThreadGroup<kBlock>::lane(); i < n; i += kBlock) {
      const std::int64_t at = i + shift < n ? i + shift : i + shift - n;
      sum += static_cast<double>(to_float(from[at])) * static_cast<double>(to_float(with[i]));
    }
    sum = ThreadGroup<kBlock>::sum(sum);
    if (ThreadGroup<kBlock>::lane() == 0) store(y + item, static_cast<float>(sum), accumulate);
  }
}

void run_delayed_dot(const WeightedRollDotArgs& args, Stream stream) {
  const std::int64_t items = args.delays.numel();
  if (items == 0) return;
  dispatch_device_float(args.x.dtype, "weighted_roll_dot", [&]<class T>() {
    launch({"weighted_roll_dot", stream, args.x}, weighted_roll_dot_kernel<T>,
           Size3{grid_for(stream.device, items, 1, 32)}, Size3{kBlock}, 0, args.x.as<T>(), args.dy.as<T>(),
           args.delays.as<std::int64_t>(), args.y.as<T>(), items, args.delays.dim(1), args.x.dim(1),
           args.x.dim(2), args.accumulate);
  });
}

}  // namespace

void register_weighted_roll() {
  weighted_roll_dot.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const WeightedRollDotArgs& args) { return is_device_float(args.x.dtype); },
       run_delayed_dot});
  weighted_roll.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const WeightedRollArgs& args) { return is_device_float(args.x.dtype); },
       run_delayed_sum});
}

}  // namespace ingot::kernels::cuda
