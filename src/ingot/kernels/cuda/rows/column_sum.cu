#include <algorithm>

#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/gemm.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kColumnBlock = 256;
constexpr int kRowsAtOnce = 4;  // that a thread reads before it adds

// A block is `across` threads, each with `vec` neighbouring columns, by kColumnBlock / across lanes, which
// take its rows round-robin. partials[p, j] = Σ x[i, j] over the rows of part p, added lane by lane.
template <class T, int vec>
__global__ __launch_bounds__(kColumnBlock, 4) void column_parts_kernel(const T* x, float* partials,
                                                                       std::int64_t m, std::int64_t n,
                                                                       int across) {
  INGOT_SHARED_ARRAY(float, sums, kColumnBlock* vec);
  const int thread = static_cast<int>(threadIdx.x), lane = thread / across, lanes = kColumnBlock / across;
  const std::int64_t j = (std::int64_t{blockIdx.x} * across + thread % across) * vec;
  const std::int64_t step = std::int64_t{gridDim.y} * lanes;
  float sum[vec] = {};
  for (std::int64_t row = std::int64_t{blockIdx.y} * lanes + lane; j < n && row < m;
       row += step * kRowsAtOnce) {
    Elements<T, vec> vectors[kRowsAtOnce];
    INGOT_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      vectors[k].fill([](int) { return 0.0F; });
      if (row + k * step < m) vectors[k].load(x + (row + k * step) * n + j);
    }
    INGOT_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) sum[v] += vectors[k].get(v);
    }
  }
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) sums[thread * vec + v] = sum[v];
  __syncthreads();
  if (lane > 0 || j >= n) return;
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) {
    for (int other = 1; other < lanes; ++other) sum[v] += sums[(other * across + thread) * vec + v];
    partials[blockIdx.y * n + j + v] = sum[v];
  }
}

template <class T, int vec>
void column_sum_in_vectors(const LaunchSite& site, const ColumnSumArgs& args) {
  const std::int64_t m = args.x.dim(0), n = args.x.dim(1), vectors = n / vec;
  int across = 4;
  while (across < 64 && across < vectors) across *= 2;
  const int lanes = kColumnBlock / across;
  const std::int64_t groups = (vectors + across - 1) / across;
  // As many blocks as the scratch has rows, four for each multiprocessor, as far as x has rows for them.
  const std::int64_t wanted = (args.partials.dim(0) + groups - 1) / groups;
  const std::int64_t most = std::max<std::int64_t>((m + lanes - 1) / lanes, 1);
  const auto parts = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
  launch(site, column_parts_kernel<T, vec>,
         Size3{static_cast<unsigned>(groups), static_cast<unsigned>(parts)}, Size3{kColumnBlock}, 0,
         args.x.as<T>(), args.partials.as<float>(), m, n, across);
  sum_parts(site, args.partials.as<float>(), parts, n, n, args.y.as<T>(), args.accumulate);
}

void run_column_sum(const ColumnSumArgs& args, Stream stream) {
  if (args.x.dim(1) == 0) return;
  const LaunchSite site{"column_sum", stream, args.x};
  dispatch_device_float(args.x.dtype, "column_sum", [&]<class T>() {
    if (rows_in_vectors(args.x.dim(1), {args.x})) return column_sum_in_vectors<T, kVector<T>>(site, args);
    column_sum_in_vectors<T, 1>(site, args);
  });
}

}  // namespace

void register_column_sum() {
  column_sum.add(DeviceType::cuda,
                 {"cuda", ImplKind::cuda,
                  [](const ColumnSumArgs& args) { return is_device_float(args.x.dtype); }, run_column_sum});
}

}  // namespace ingot::kernels::cuda
