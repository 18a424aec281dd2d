#include "ingot/kernels/cuda/int8_rounding.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/kv_store.h"

namespace ingot::kernels::cuda {
namespace {

using Warp = Team<kWarp>;

/// Where row (i, h) of x is, and the row and scale of a position in the cache.
template <class X>
struct KvRows {
  const X* x;
  const std::int32_t* position;  // may be null
  std::int64_t n, heads, d, capacity;
  std::int64_t x_position, x_head, y_head, y_position, scale_head;

  explicit KvRows(const KvStoreArgs& args)
      : x(args.x.as<X>()),
        position(args.position.as<std::int32_t>()),
        n(args.x.dim(0)),
        heads(args.x.dim(1)),
        d(args.x.dim(2)),
        capacity(args.y.dim(1)),
        x_position(args.x.stride(0)),
        x_head(args.x.stride(1)),
        y_head(args.y.stride(0)),
        y_position(args.y.stride(1)),
        scale_head(args.scale ? args.scale.stride(0) : 0) {}

  /// Calls f(row of x, place of its row in the cache, place of its scale), a warp for each row of one
  /// position and one head that the cache has room for.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    const std::int64_t first = position == nullptr ? 0 : *position;
    for (std::int64_t row = Warp::first_row(); row < n * heads; row += Warp::row_step()) {
      const std::int64_t i = row / heads, h = row - i * heads, at = first + i;
      if (at >= 0 && at < capacity)
        f(x + i * x_position + h * x_head, h * y_head + at * y_position, h * scale_head + at);
    }
  }
};

template <class X, class T>
__global__ void kv_store_kernel(const __grid_constant__ KvRows<X> rows, T* y) {
  rows.each([&](const X* from, std::int64_t to, std::int64_t) {
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp) y[to + c] = from_float<T>(to_float(from[c]));
  });
}

template <class X>
__global__ void kv_store_quantised_kernel(const __grid_constant__ KvRows<X> rows, std::int8_t* y,
                                          float* scale) {
  rows.each([&](const X* from, std::int64_t to, std::int64_t scale_at) {
    const Int8Rounding rounding = Int8Rounding::of_row(from, rows.d);
    if (Warp::lane() == 0) scale[scale_at] = rounding.scale;
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp)
      y[to + c] = static_cast<std::int8_t>(rounding.code(to_float(from[c])));
  });
}

void run_kv_store(const KvStoreArgs& args, Stream stream) {
  const std::int64_t count = args.x.dim(0) * args.x.dim(1);
  if (count == 0) return;
  const LaunchSite site{"kv_store", stream, args.y};
  const Size3 grid{grid_of_rows<kWarp>(stream.device, count)}, block{Warp::kThreads};
  dispatch_device_float(args.x.dtype, "kv_store", [&]<class X>() {
    const KvRows<X> rows(args);
    if (args.y.dtype == DType::i8)
      return launch(site, kv_store_quantised_kernel<X>, grid, block, 0, rows, args.y.as<std::int8_t>(),
                    args.scale.as<float>());
    dispatch_device_float(args.y.dtype, "kv_store", [&]<class T>() {
      launch(site, kv_store_kernel<X, T>, grid, block, 0, rows, args.y.as<T>());
    });
  });
}

}  // namespace

void register_kv_store() {
  kv_store.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                  [](const KvStoreArgs& args) {
                                    return is_device_float(args.x.dtype) &&
                                           (args.y.dtype == DType::i8 || is_device_float(args.y.dtype));
                                  },
                                  run_kv_store});
}

}  // namespace ingot::kernels::cuda
