#include "ingot/kernels/cuda/int8_rounding.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/kv_store.h"

namespace ingot::kernels::cuda {
namespace {

using Warp = Team<kWarp>;

/// Where row (i, h) of x, its row of the cache and its scale are.
struct KvRows {
  const float* x;
  std::int64_t n, heads, d;
  std::int64_t x_position, x_head, y_head, y_position, scale_head;

  explicit KvRows(const KvStoreArgs& args)
      : x(args.x.as<float>()),
        n(args.x.dim(0)),
        heads(args.x.dim(1)),
        d(args.x.dim(2)),
        x_position(args.x.stride(0)),
        x_head(args.x.stride(1)),
        y_head(args.y.stride(0)),
        y_position(args.y.stride(1)),
        scale_head(args.scale ? args.scale.stride(0) : 0) {}
};

// A warp for each row of one position and one head.
template <class T>
__global__ void kv_store_kernel(const __grid_constant__ KvRows rows, T* y) {
  for (std::int64_t row = Warp::first_row(); row < rows.n * rows.heads; row += Warp::row_step()) {
    const std::int64_t i = row / rows.heads, h = row - i * rows.heads;
    const float* from = rows.x + i * rows.x_position + h * rows.x_head;
    T* to = y + h * rows.y_head + i * rows.y_position;
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp) to[c] = from_float<T>(from[c]);
  }
}

__global__ void kv_store_quantised_kernel(const __grid_constant__ KvRows rows, std::int8_t* y, float* scale) {
  for (std::int64_t row = Warp::first_row(); row < rows.n * rows.heads; row += Warp::row_step()) {
    const std::int64_t i = row / rows.heads, h = row - i * rows.heads;
    const float* from = rows.x + i * rows.x_position + h * rows.x_head;
    const Int8Rounding rounding = Int8Rounding::of_row(from, rows.d);
    if (Warp::lane() == 0) scale[h * rows.scale_head + i] = rounding.scale;
    std::int8_t* to = y + h * rows.y_head + i * rows.y_position;
    for (std::int64_t c = Warp::lane(); c < rows.d; c += kWarp)
      to[c] = static_cast<std::int8_t>(rounding.code(from[c]));
  }
}

void run_kv_store(const KvStoreArgs& args, Stream stream) {
  const KvRows rows(args);
  if (rows.n * rows.heads == 0) return;
  const LaunchSite site{"kv_store", stream, args.y};
  const Size3 grid{grid_of_rows<kWarp>(stream.device, rows.n * rows.heads)}, block{Warp::kThreads};
  if (args.y.dtype == DType::i8)
    return launch(site, kv_store_quantised_kernel, grid, block, 0, rows, args.y.as<std::int8_t>(),
                  args.scale.as<float>());
  dispatch_device_float(args.y.dtype, "kv_store", [&]<class T>() {
    launch(site, kv_store_kernel<T>, grid, block, 0, rows, args.y.as<T>());
  });
}

}  // namespace

void register_kv_store() {
  kv_store.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                  [](const KvStoreArgs& args) {
                                    return args.x.dtype == DType::f32 &&
                                           (args.y.dtype == DType::i8 || is_device_float(args.y.dtype));
                                  },
                                  run_kv_store});
}

}  // namespace ingot::kernels::cuda
