#include "ingot/kernels/cuda/device/int8_rounding.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/kv_store.h"

namespace ingot::kernels::cuda {
namespace {

using Warp = ThreadGroup<kWarp>;

/// Keys, or values: where row (i, h) of x is, and the row and scale of a position in its cache.
template <class X, class T>
struct KvRowsPart {
  const X* x;
  T* y;
  float* scales;  // of i8
  std::int64_t x_position, x_head, y_head, y_position, scale_head;

  explicit KvRowsPart(const KvStoreArgs& args)
      : x(args.x.as<X>()),
        y(args.y.as<T>()),
        scales(args.scale.as<float>()),
        x_position(args.x.stride(0)),
        x_head(args.x.stride(1)),
        y_head(args.y.stride(0)),
        y_position(args.y.stride(1)),
        scale_head(args.scale ? args.scale.stride(0) : 0) {}
};

template <class X, class T>
struct KvRows {
  KvRowsPart<X, T> parts[2];
  const std::int32_t* position;  // may be null
  const CacheEntry* caches;      // instead of y and scales, or null
  std::int64_t rows_each;        // of a cache
  std::int64_t n, heads, d, capacity;
  std::int64_t count;  // of parts

  explicit KvRows(const KvStoreArgs& args)
      : parts{KvRowsPart<X, T>(args), KvRowsPart<X, T>(args.also_x ? args.also() : args)},
        position(args.position.as<std::int32_t>()),
        caches(args.caches.as<CacheEntry>()),
        rows_each(args.caches ? args.x.dim(0) / args.caches.dim(0) : args.x.dim(0)),
        n(args.x.dim(0)),
        heads(args.x.dim(1)),
        d(args.x.dim(2)),
        capacity(args.y.dim(1)),
        count(args.also_x ? 2 : 1) {}

  /// Calls f(row of x, its row in the cache, its scale), a warp for each row of one position and one head
  /// that the cache's capacity holds.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    const std::int64_t rows = n * heads;
    for (std::int64_t row = Warp::first_row(); row < count * rows; row += Warp::row_step()) {
      const bool second = row >= rows;
      const KvRowsPart<X, T>& part = parts[second ? 1 : 0];
      const std::int64_t within = second ? row - rows : row;
      const std::int64_t i = within / heads, h = within - i * heads, sequence = i / rows_each;
      const std::int64_t at = i - sequence * rows_each + (position == nullptr ? 0 : position[sequence]);
      const X* from = part.x + i * part.x_position + h * part.x_head;
      if (caches == nullptr) {
        if (at >= 0 && at < capacity)
          f(from, part.y + h * part.y_head + at * part.y_position, part.scales + h * part.scale_head + at);
        continue;
      }
      const CacheEntry& cache = caches[sequence];
      const std::int64_t index = h * cache.capacity + at;
      if (at >= 0 && at < cache.capacity)
        f(from, static_cast<T*>(second ? cache.values : cache.keys) + index * d,
          (second ? cache.value_scales : cache.key_scales) + index);
    }
  }
};

template <class X, class T>
__global__ void kv_store_kernel(const __grid_constant__ KvRows<X, T> rows) {
  rows.each([&](const X* from, T* to, float*) {
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp) to[c] = from_float<T>(to_float(from[c]));
  });
}

template <class X>
__global__ void kv_store_quantised_kernel(const __grid_constant__ KvRows<X, std::int8_t> rows) {
  rows.each([&](const X* from, std::int8_t* to, float* scale) {
    const Int8Rounding rounding = Int8Rounding::of_row(from, rows.d);
    if (Warp::lane() == 0) *scale = rounding.scale;
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp)
      to[c] = static_cast<std::int8_t>(rounding.code(to_float(from[c])));
  });
}

void run_kv_store(const KvStoreArgs& args, Stream stream) {
  const std::int64_t count = (args.also_x ? 2 : 1) * args.x.dim(0) * args.x.dim(1);
  if (count == 0) return;
  const LaunchSite site{"kv_store", stream, args.y};
  const Size3 grid{grid_of_rows<kWarp>(stream.device, count)}, block{Warp::kThreads};
  dispatch_device_float(args.x.dtype, "kv_store", [&]<class X>() {
    if (args.y.dtype == DType::i8)
      return launch(site, kv_store_quantised_kernel<X>, grid, block, 0, KvRows<X, std::int8_t>(args));
    dispatch_device_float(args.y.dtype, "kv_store", [&]<class T>() {
      launch(site, kv_store_kernel<X, T>, grid, block, 0, KvRows<X, T>(args));
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
