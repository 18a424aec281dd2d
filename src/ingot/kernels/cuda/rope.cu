#include "ingot/kernels/cuda/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cuda {
namespace {

struct RopeKernelArgs {
  const void* x;
  void* y;
  const float *cos, *sin;
  const void* positions;  // or null
  bool positions_i64;
  std::int64_t position_strides[2];
  std::int64_t sizes[4], x_strides[3], y_strides[3];  // [B, S, H, D]; the last axis is adjacent
  std::int64_t half, offset, table, rotated_heads;
  bool interleaved, inverse, accumulate;
};

__device__ __forceinline__ std::int64_t position_of(const RopeKernelArgs& args, std::int64_t b,
                                                    std::int64_t s) {
  if (args.positions == nullptr) return args.offset + s;
  const std::int64_t at = b * args.position_strides[0] + s * args.position_strides[1];
  return args.positions_i64 ? static_cast<const std::int64_t*>(args.positions)[at]
                            : static_cast<const std::int32_t*>(args.positions)[at];
}

// One warp per head of a token. A position outside of the table cannot throw here: it gives NaNs, which show.
template <class T>
__global__ void rope_kernel(const __grid_constant__ RopeKernelArgs args) {
  const std::int64_t heads = args.sizes[0] * args.sizes[1] * args.sizes[2];
  const std::int64_t warps = std::int64_t{gridDim.x} * (blockDim.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (std::int64_t i = std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp; i < heads;
       i += warps) {
    const std::int64_t h = i % args.sizes[2], token = i / args.sizes[2];
    const std::int64_t s = token % args.sizes[1], b = token / args.sizes[1];
    const T* x =
        static_cast<const T*>(args.x) + b * args.x_strides[0] + s * args.x_strides[1] + h * args.x_strides[2];
    T* y = static_cast<T*>(args.y) + b * args.y_strides[0] + s * args.y_strides[1] + h * args.y_strides[2];
    const std::int64_t pairs = h < args.rotated_heads ? args.half : 0;
    const std::int64_t position = pairs > 0 ? position_of(args, b, s) : 0;
    const bool known = position >= 0 && position < args.table;
    for (std::int64_t k = lane; k < pairs; k += kWarp) {
      const std::int64_t first = args.interleaved ? 2 * k : k,
                         second = args.interleaved ? 2 * k + 1 : k + args.half;
      const float cos = known ? args.cos[position * args.half + k] : NAN;
      const float sin = known ? args.sin[position * args.half + k] : NAN;
      const float u = to_float(x[first]), v = to_float(x[second]), w = args.inverse ? -sin : sin;
      store(y + first, u * cos - v * w, args.accumulate);
      store(y + second, v * cos + u * w, args.accumulate);
    }
    for (std::int64_t k = 2 * pairs + lane; k < args.sizes[3]; k += kWarp)
      store(y + k, to_float(x[k]), args.accumulate);
  }
}

void run_rope(const RopeArgs& args, Stream stream) {
  if (args.x.numel() == 0) return;
  RopeKernelArgs kernel_args{.x = args.x.data,
                             .y = args.y.data,
                             .cos = args.cos.as<float>(),
                             .sin = args.sin.as<float>(),
                             .positions = args.positions.data,
                             .positions_i64 = args.positions.dtype == DType::i64,
                             .position_strides = {},
                             .sizes = {},
                             .x_strides = {},
                             .y_strides = {},
                             .half = args.cos.dim(1),
                             .offset = args.offset,
                             .table = args.cos.dim(0),
                             .rotated_heads = args.rotated_heads,
                             .interleaved = args.interleaved,
                             .inverse = args.inverse,
                             .accumulate = args.accumulate};
  for (int i = 0; i < 4; ++i) kernel_args.sizes[i] = args.x.dim(i);
  for (int i = 0; i < 3; ++i) {
    kernel_args.x_strides[i] = args.x.stride(i);
    kernel_args.y_strides[i] = args.y.stride(i);
  }
  for (int i = 0; args.positions && i < 2; ++i) kernel_args.position_strides[i] = args.positions.stride(i);
  dispatch_device_float(args.x.dtype, "rope", [&]<class T>() {
    const std::int64_t heads = args.x.dim(0) * args.x.dim(1) * args.x.dim(2);
    launch({"rope", stream, args.x}, rope_kernel<T>, Size3{grid_for(stream.device, heads, 8, 32)}, Size3{256},
           0, kernel_args);
  });
}

}  // namespace

void register_rope() {
  rope.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                              [](const RopeArgs& args) { return is_device_float(args.x.dtype); }, run_rope});
}

}  // namespace ingot::kernels::cuda
