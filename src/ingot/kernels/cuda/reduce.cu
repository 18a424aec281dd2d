#include "ingot/kernels/cuda/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/reduce_axes.h"

namespace ingot::kernels::cuda {
namespace {

constexpr std::int64_t kGroup = 1024;  // elements that are summed in f32, the contract's limit

/// A sum, or an extreme that passes a NaN on, over elements that come one by one.
struct Reduction {
  ReduceOp op;
  double total = 0;
  float group = 0;
  std::int64_t count = 0;

  __device__ explicit Reduction(ReduceOp op_) : op(op_) {
    if (op == ReduceOp::max) group = -INFINITY;
    if (op == ReduceOp::min) group = INFINITY;
  }
  __device__ static float extreme(ReduceOp op, float a, float b) {
    if (a != a) return a;
    return b != b || (op == ReduceOp::max ? b > a : b < a) ? b : a;
  }
  __device__ void add(float value) {
    if (op != ReduceOp::sum) {
      group = extreme(op, group, value);
      return;
    }
    group += value;
    if (++count % kGroup != 0) return;
    total += static_cast<double>(group);
    group = 0;
  }
  /// What all threads of the team together have; every one of them calls it.
  template <int size>
  __device__ double of_team() const {
    if (op == ReduceOp::sum) return Team<size>::sum(total + static_cast<double>(group));
    const float sign = op == ReduceOp::max ? 1.0F : -1.0F;
    const bool nan = Team<size>::max(group != group ? 1.0F : 0.0F) > 0.0F;  // fmaxf drops NaNs
    const float best = sign * Team<size>::max(sign * group);
    return nan ? static_cast<double>(NAN) : static_cast<double>(best);
  }
  __device__ double of_thread() const {
    return op == ReduceOp::sum ? total + static_cast<double>(group) : static_cast<double>(group);
  }
};

struct ReduceKernelArgs {
  const void* x;
  void* y;
  Walk<2> kept;  // x and y
  Walk<1> reduced;
  ReduceOp op;
  double scale;
  bool accumulate;
};

// A team for each result: for reductions whose innermost axis is reduced, so that a team reads neighbours.
template <class T, int size>
__global__ void reduce_rows_kernel(const __grid_constant__ ReduceKernelArgs args) {
  for (std::int64_t row = Team<size>::first_row(); row < args.kept.total; row += Team<size>::row_step()) {
    std::int64_t at[2], inner[1];
    args.kept.offsets(row, at);
    Reduction value(args.op);
    for (std::int64_t i = Team<size>::lane(); i < args.reduced.total; i += size) {
      args.reduced.offsets(i, inner);
      value.add(to_float(static_cast<const T*>(args.x)[at[0] + inner[0]]));
    }
    const auto result = static_cast<float>(value.of_team<size>() * args.scale);
    if (Team<size>::lane() == 0) store(static_cast<T*>(args.y) + at[1], result, args.accumulate);
  }
}

// A thread for each result: where the innermost axis is kept, neighbouring threads read neighbours.
template <class T>
__global__ void reduce_columns_kernel(const __grid_constant__ ReduceKernelArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.kept.total; i += step) {
    std::int64_t at[2], inner[1];
    args.kept.offsets(i, at);
    Reduction value(args.op);
    for (std::int64_t k = 0; k < args.reduced.total; ++k) {
      args.reduced.offsets(k, inner);
      value.add(to_float(static_cast<const T*>(args.x)[at[0] + inner[0]]));
    }
    store(static_cast<T*>(args.y) + at[1], static_cast<float>(value.of_thread() * args.scale),
          args.accumulate);
  }
}

void run_reduce(const ReduceArgs& args, Stream stream) {
  const ReduceAxes axes(args);
  const ReduceKernelArgs kernel_args{.x = args.x.data,
                                     .y = args.y.data,
                                     .kept = walk_of(Runs<2>({axes.x_kept, axes.y})),
                                     .reduced = walk_of(Runs<1>({axes.x_reduced})),
                                     .op = args.op,
                                     .scale = args.scale,
                                     .accumulate = args.accumulate};
  if (kernel_args.kept.total == 0) return;
  const LaunchSite site{"reduce", stream, args.x};
  dispatch_device_float(args.x.dtype, "reduce", [&]<class T>() {
    if (!axes.inner_is_reduced) {
      launch(site, reduce_columns_kernel<T>, Size3{grid_for(stream.device, kernel_args.kept.total, 128, 32)},
             Size3{128}, 0, kernel_args);
      return;
    }
    dispatch_team(kernel_args.reduced.total, [&]<int size>() {
      launch(site, reduce_rows_kernel<T, size>,
             Size3{grid_of_rows<size>(stream.device, kernel_args.kept.total)}, Size3{Team<size>::kThreads}, 0,
             kernel_args);
    });
  });
}

/// Whether (a, i) is a better largest element than (b, j): a NaN is the largest, of equals the first.
__device__ __forceinline__ bool better(float a, std::int64_t i, float b, std::int64_t j) {
  if (a != a || b != b) return a != a && (b == b || i < j);
  return a > b || (a == b && i < j);
}

template <class T>
__global__ void argmax_kernel(const T* x, std::int64_t* y, std::int64_t rows, std::int64_t n) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const std::int64_t warps = std::int64_t{gridDim.x} * (blockDim.x / kWarp);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp; row < rows;
       row += warps) {
    float best = -INFINITY;
    std::int64_t place = n;  // worse than any element's, also than that of -infinity
    for (std::int64_t i = lane; i < n; i += kWarp) {
      const float value = to_float(x[row * n + i]);
      if (!better(value, i, best, place)) continue;
      best = value;
      place = i;
    }
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, apart);
      const long long other_place = __shfl_xor_sync(kAllLanes, static_cast<long long>(place), apart);
      if (!better(other, other_place, best, place)) continue;
      best = other;
      place = other_place;
    }
    if (lane == 0) y[row] = place;
  }
}

void run_argmax(const ArgmaxArgs& args, Stream stream) {
  const std::int64_t rows = args.x.rows();
  if (rows == 0) return;
  dispatch_device_float(args.x.dtype, "argmax", [&]<class T>() {
    launch({"argmax", stream, args.x}, argmax_kernel<T>, Size3{grid_for(stream.device, rows, 4, 32)},
           Size3{128}, 0, args.x.as<T>(), args.y.as<std::int64_t>(), rows, args.x.dim(-1));
  });
}

}  // namespace

void register_reduce() {
  argmax.add(DeviceType::cuda,
             {"cuda", ImplKind::cuda, [](const ArgmaxArgs& args) { return is_device_float(args.x.dtype); },
              run_argmax});
  reduce.add(DeviceType::cuda,
             {"cuda", ImplKind::cuda, [](const ReduceArgs& args) { return is_device_float(args.x.dtype); },
              run_reduce});
}

}  // namespace ingot::kernels::cuda
