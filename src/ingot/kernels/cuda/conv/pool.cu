#include "ingot/kernels/cuda/conv/image.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/pool.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;

/// The windows along one axis.
struct PoolAxis {
  std::int64_t in, out, window, stride, padding, padding_end, dilation;
  bool adaptive;

  template <class Args>
  PoolAxis(const Args& args, std::size_t axis, std::int64_t in_, std::int64_t out_)
      : in(in_),
        out(out_),
        window(args.window[axis]),
        stride(args.geometry.stride[axis]),
        padding(args.geometry.padding[axis]),
        padding_end(args.padding_end[axis]),
        dilation(args.geometry.dilation[axis]),
        adaptive(args.adaptive) {}

  struct Range {
    std::int64_t first, end, step, size;  // positions first, first + step ... below end; size: with padding

    __device__ std::int64_t count() const { return end > first ? (end - first + step - 1) / step : 0; }
    __device__ bool holds(std::int64_t at) const {
      return at >= first && at < end && (at - first) % step == 0;
    }
  };
  /// The positions of window i.
  __device__ Range range(std::int64_t i) const {
    if (adaptive) {
      const std::int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
      return {first, end, 1, end - first};
    }
    const std::int64_t begin = i * stride - padding, end = begin + window * dilation;
    const std::int64_t skipped = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    const std::int64_t reaches = (in + padding_end - begin + dilation - 1) / dilation;
    return {begin + skipped * dilation, end < in ? end : in, dilation, reaches < window ? reaches : window};
  }
  /// Windows outside of [first, last] do not hold position `at`; those inside may.
  __device__ void candidates(std::int64_t at, std::int64_t& first, std::int64_t& last) const {
    if (adaptive) {
      first = at * out / in;
      last = ((at + 1) * out + in - 1) / in - 1;
    } else {
      const std::int64_t reach = at + padding - (window - 1) * dilation;
      first = reach <= 0 ? 0 : (reach + stride - 1) / stride;
      last = (at + padding) / stride;
    }
    if (last >= out) last = out - 1;
  }
};

__device__ __forceinline__ float divisor(PoolMode mode, const PoolAxis::Range& rows,
                                         const PoolAxis::Range& columns) {
  return static_cast<float>(mode == PoolMode::average ? rows.size * columns.size
                                                      : rows.count() * columns.count());
}

struct PoolKernelArgs {
  const void* from;     // x, or dy
  void* to;             // y, or dx
  std::int32_t* index;  // of max
  Image x, y;
  PoolAxis rows, columns;
  PoolMode mode;
  bool accumulate;

  template <class Args>
  PoolKernelArgs(const Args& args, const View& x_, const View& y_)
      : x(x_, args.geometry.channels_last),
        y(y_, args.geometry.channels_last),
        rows(args, 0, x.h, y.h),
        columns(args, 1, x.w, y.w) {
    index = args.index ? args.index.template as<std::int32_t>() : nullptr;
    mode = args.mode;
  }
};

template <class T>
__global__ void pool_kernel(const __grid_constant__ PoolKernelArgs args) {
  const std::int64_t total = args.y.total();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const Image::Position out = args.y.position(i);
    const PoolAxis::Range rows = args.rows.range(out.h), columns = args.columns.range(out.w);
    float sum = 0, best = -INFINITY;
    std::int64_t best_at = -1;
    for (std::int64_t h = rows.first; h < rows.end; h += rows.step) {
      for (std::int64_t w = columns.first; w < columns.end; w += columns.step) {
        const float value = to_float(static_cast<const T*>(args.from)[args.x.at(out.n, out.c, h, w)]);
        sum += value;
        if (best_at >= 0 && !(value > best) && !(value != value && best == best)) continue;
        best = value;
        best_at = h * args.x.w + w;
      }
    }
    if (args.index != nullptr) args.index[i] = static_cast<std::int32_t>(best_at);
    const float value = args.mode == PoolMode::max ? best : sum / divisor(args.mode, rows, columns);
    static_cast<T*>(args.to)[i] = from_float<T>(value);
  }
}

// A thread for each position of dx, which collects from the windows over it: windows overlap, and so no two
// threads add to one position.
template <class T>
__global__ void pool_backward_kernel(const __grid_constant__ PoolKernelArgs args) {
  const std::int64_t total = args.x.total();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const Image::Position in = args.x.position(i);
    std::int64_t row = 0, last_row = 0, first_column = 0, last_column = 0;
    args.rows.candidates(in.h, row, last_row);
    args.columns.candidates(in.w, first_column, last_column);
    float sum = 0;
    for (; row <= last_row; ++row) {
      const PoolAxis::Range rows = args.rows.range(row);
      for (std::int64_t column = first_column; column <= last_column; ++column) {
        const std::int64_t at = args.y.at(in.n, in.c, row, column);
        const float dy = to_float(static_cast<const T*>(args.from)[at]);
        if (args.mode == PoolMode::max) {
          if (args.index[at] == in.h * args.x.w + in.w) sum += dy;
          continue;
        }
        const PoolAxis::Range columns = args.columns.range(column);
        if (rows.holds(in.h) && columns.holds(in.w)) sum += dy / divisor(args.mode, rows, columns);
      }
    }
    store(static_cast<T*>(args.to) + i, sum, args.accumulate);
  }
}

void run_pool(const PoolArgs& args, Stream stream) {
  PoolKernelArgs kernel_args(args, args.x, args.y);
  kernel_args.from = args.x.data;
  kernel_args.to = args.y.data;
  kernel_args.accumulate = false;
  if (kernel_args.y.total() == 0) return;
  dispatch_device_float(args.x.dtype, "pool", [&]<class T>() {
    launch({"pool", stream, args.x}, pool_kernel<T>,
           Size3{grid_for(stream.device, kernel_args.y.total(), kBlock)}, Size3{kBlock}, 0, kernel_args);
  });
}

void run_pool_backward(const PoolBackwardArgs& args, Stream stream) {
  PoolKernelArgs kernel_args(args, args.dx, args.dy);
  kernel_args.from = args.dy.data;
  kernel_args.to = args.dx.data;
  kernel_args.accumulate = args.accumulate;
  if (kernel_args.x.total() == 0) return;
  dispatch_device_float(args.dx.dtype, "pool_backward", [&]<class T>() {
    launch({"pool_backward", stream, args.dx}, pool_backward_kernel<T>,
           Size3{grid_for(stream.device, kernel_args.x.total(), kBlock)}, Size3{kBlock}, 0, kernel_args);
  });
}

}  // namespace

void register_pool() {
  pool.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                              [](const PoolArgs& args) { return is_device_float(args.x.dtype); }, run_pool});
  pool_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const PoolBackwardArgs& args) { return is_device_float(args.dx.dtype); },
       run_pool_backward});
}

}  // namespace ingot::kernels::cuda
