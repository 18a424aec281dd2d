#include <algorithm>

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/low_rank.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kMost = 32;  // updates in a launch, which its parameters hold

template <class W, class T>
struct Update {
  const W *a, *b;
  T* y;
  float* inner;
  std::int64_t begin, count, rank, out, lda, ldb_out, ldb_rank, ldy;
  float scale;
};

template <class W, class T>
struct Updates {
  const T* x;
  std::int64_t ldx, in;
  Update<W, T> each[kMost];
};

// A warp for each element of x·aᵀ.
template <class W, class T>
__global__ void __launch_bounds__(kBlock) shrink_kernel(const __grid_constant__ Updates<W, T> args) {
  const Update<W, T>& update = args.each[blockIdx.y];
  const std::int64_t item = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (item >= update.count * update.rank) return;
  const std::int64_t row = item / update.rank, r = item - row * update.rank;
  const T* x = args.x + (update.begin + row) * args.ldx;
  const W* a = update.a + r * update.lda;
  float sum = 0;
  for (std::int64_t c = static_cast<int>(threadIdx.x) % kWarp; c < args.in; c += kWarp)
    sum += to_float(x[c]) * to_float(a[c]);
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) update.inner[item] = sum;
}

// A thread for each element of y; neighbours read neighbours of b where its rows are adjacent.
template <class W, class T>
__global__ void __launch_bounds__(kBlock) expand_kernel(const __grid_constant__ Updates<W, T> args) {
  const Update<W, T>& update = args.each[blockIdx.y];
  const std::int64_t item = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (item >= update.count * update.out) return;
  const std::int64_t row = item / update.out, o = item - row * update.out;
  const float* inner = update.inner + row * update.rank;
  const W* b = update.b + o * update.ldb_out;
  float sum = 0;
  for (std::int64_t r = 0; r < update.rank; ++r) sum += inner[r] * to_float(b[r * update.ldb_rank]);
  store(update.y + row * update.ldy + o, update.scale * sum, true);
}

template <class W, class T>
void run_updates(const View& x, std::span<const LowRankUpdate> updates, float* inner, Stream stream) {
  Updates<W, T> args{.x = x.as<T>(), .ldx = x.stride(0), .in = x.dim(1), .each = {}};
  std::int64_t most_inner = 0, most_y = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const LowRankUpdate& update = updates[i];
    args.each[i] = {.a = update.a.as<W>(),
                    .b = update.b.as<W>(),
                    .y = update.y.as<T>(),
                    .inner = inner,
                    .begin = update.begin,
                    .count = update.y.dim(0),
                    .rank = update.rank(),
                    .out = update.b.dim(0),
                    .lda = update.a.stride(0),
                    .ldb_out = update.b.stride(0),
                    .ldb_rank = update.b.stride(1),
                    .ldy = update.y.stride(0),
                    .scale = update.scale};
    inner += update.inner();
    most_inner = std::max(most_inner, update.inner());
    most_y = std::max(most_y, update.y.numel());
  }
  if (most_inner == 0 || most_y == 0) return;
  const auto count = static_cast<unsigned>(updates.size());
  const auto blocks = [](std::int64_t items) { return static_cast<unsigned>((items + kBlock - 1) / kBlock); };
  launch({"low_rank", stream, x}, shrink_kernel<W, T>, Size3{blocks(most_inner * kWarp), count},
         Size3{kBlock}, 0, args);
  launch({"low_rank", stream, x}, expand_kernel<W, T>, Size3{blocks(most_y), count}, Size3{kBlock}, 0, args);
}

// Neighbours of one dtype, as many as a launch takes.
void run(const LowRankArgs& args, Stream stream) {
  auto* inner = args.inner.as<float>();
  for (std::size_t first = 0; first < args.updates.size();) {
    std::size_t last = first;
    std::int64_t used = 0;
    const DType dtype = args.updates[first].a.dtype;
    while (last < args.updates.size() && last - first < kMost && args.updates[last].a.dtype == dtype)
      used += args.updates[last++].inner();
    const auto some = args.updates.subspan(first, last - first);
    dispatch_device_float(args.x.dtype, "low_rank", [&]<class T>() {
      if (dtype == args.x.dtype) return run_updates<T, T>(args.x, some, inner, stream);
      if (dtype == DType::i8) return run_updates<std::int8_t, T>(args.x, some, inner, stream);
      dispatch_device_float(dtype, "low_rank",
                            [&]<class W>() { run_updates<W, T>(args.x, some, inner, stream); });
    });
    inner += used;
    first = last;
  }
}

bool accepts(const LowRankArgs& args) {
  return is_device_float(args.x.dtype) && std::ranges::all_of(args.updates, [](const LowRankUpdate& update) {
           return (is_device_float(update.a.dtype) || update.a.dtype == DType::i8) &&
                  update.b.dtype == update.a.dtype;
         });
}

}  // namespace

void register_low_rank() { low_rank.add(DeviceType::cuda, {"cuda", ImplKind::cuda, accepts, run}); }

}  // namespace ingot::kernels::cuda
