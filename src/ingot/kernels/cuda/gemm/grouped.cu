#include <algorithm>

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/gemm/mma_gemm.h"
#include "ingot/kernels/cuda/gemm/simt_gemm.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/grouped.h"

namespace ingot::kernels::cuda {
namespace {

// Matmuls of groups whose sizes only the device knows: a launch has blocks for the most tiles that there can
// be, and each finds its own.

/// Rows [begin, end) of a group's from `begin` on; no group where there are fewer tiles.
struct GroupTile {
  std::int64_t group = -1, begin = 0, end = 0;
};

/// Tile number `slot`, when the rows of each group are cut into tiles of `tile`.
__device__ __forceinline__ GroupTile group_tile(const std::int64_t* offsets, std::int64_t groups,
                                                std::int64_t slot, int tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  std::int64_t before = 0;  // tiles of the groups that were looked at: 32 at a time, one for each lane
  for (std::int64_t first = 0; first < groups; first += kWarp) {
    const bool exists = first + lane < groups;
    const std::int64_t begin = exists ? offsets[first + lane] : 0,
                       end = exists ? offsets[first + lane + 1] : 0;
    const std::int64_t own = (end - begin + tile - 1) / tile;
    std::int64_t upto = own;
    for (int apart = 1; apart < kWarp; apart *= 2) {
      const std::int64_t lower = __shfl_up_sync(kAllLanes, upto, static_cast<unsigned>(apart));
      if (lane >= apart) upto += lower;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, before + upto > slot ? 1 : 0);
    if (beyond != 0) {
      const int at = __ffs(static_cast<int>(beyond)) - 1;
      const std::int64_t within = slot - before - __shfl_sync(kAllLanes, upto - own, at);
      return {first + at, __shfl_sync(kAllLanes, begin, at) + within * tile, __shfl_sync(kAllLanes, end, at)};
    }
    before += __shfl_sync(kAllLanes, upto, kWarp - 1);
  }
  return {};
}

/// The most tiles that `rows` rows in `groups` groups can be.
unsigned most_tiles(std::int64_t rows, std::int64_t groups, int tile) {
  return static_cast<unsigned>((rows + tile - 1) / tile + groups);
}

template <class T>
struct GroupedGemm {
  const T *a, *b;
  T* c;
  const std::int64_t* offsets;
  std::int64_t groups, k, n, a_stride, c_stride;
  std::int64_t b_strides[3];
  bool accumulate;

  explicit GroupedGemm(const GroupedGemmArgs& args)
      : a(args.a.as<T>()),
        b(args.b.as<T>()),
        c(args.c.as<T>()),
        offsets(args.offsets.as<std::int64_t>()),
        groups(args.b.dim(0)),
        k(args.a.dim(1)),
        n(args.c.dim(1)),
        a_stride(args.a.stride(0)),
        c_stride(args.c.stride(0)),
        b_strides{args.b.stride(0), args.b.stride(1), args.b.stride(2)},
        accumulate(args.accumulate) {}
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    grouped_gemm_kernel(const __grid_constant__ GroupedGemm<T> args) {
  TilePosition position(args.n);
  const GroupTile mine = group_tile(args.offsets, args.groups, position.row0 / kTile, kTile);
  if (mine.group < 0) return;
  position.row0 = mine.begin;
  float sums[kSide][kSide] = {};
  add_matmul(Strided<T>(args.a, args.a_stride, 1), mine.end,
             Strided<T>(args.b + mine.group * args.b_strides[0], args.b_strides[2], args.b_strides[1]),
             args.n, position, 0, args.k, sums);
  for_results(position, mine.end, args.n, sums, [&](std::int64_t row, std::int64_t column, float sum) {
    store(args.c + row * args.c_stride + column, sum, args.accumulate);
  });
}

template <class T, bool b_transposed>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_grouped_gemm_kernel(const __grid_constant__ GroupedGemm<T> args) {
  const auto across = static_cast<unsigned>((args.n + kTensorTile - 1) / kTensorTile);
  const unsigned slot = blockIdx.x / across;
  const GroupTile mine = group_tile(args.offsets, args.groups, slot, kTensorTile);
  if (mine.group < 0) return;
  const std::int64_t column0 = std::int64_t{blockIdx.x - slot * across} * kTensorTile;
  TensorSums sums;
  add_mma(sums, TensorOperand<T, false>(args.a, args.a_stride, {mine.begin, mine.end, 0, args.k}),
          TensorOperand<T, b_transposed>(args.b + mine.group * args.b_strides[0],
                                         args.b_strides[b_transposed ? 1 : 2], {column0, args.n, 0, args.k}),
          args.k);
  store_mma(sums, args.c, args.c_stride, mine.begin, mine.end, column0, args.n, args.accumulate);
}

template <class T>
struct GroupedOuter {
  const T *a, *b;
  T* c;
  const std::int64_t* offsets;
  std::int64_t m, n, a_stride, b_stride;
  bool accumulate;

  explicit GroupedOuter(const GroupedOuterArgs& args)
      : a(args.a.as<T>()),
        b(args.b.as<T>()),
        c(args.c.as<T>()),
        offsets(args.offsets.as<std::int64_t>()),
        m(args.a.dim(1)),
        n(args.b.dim(1)),
        a_stride(args.a.stride(0)),
        b_stride(args.b.stride(0)),
        accumulate(args.accumulate) {}
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    grouped_outer_kernel(const __grid_constant__ GroupedOuter<T> args) {
  const TilePosition position(args.n);
  const std::int64_t group = blockIdx.y;
  float sums[kSide][kSide] = {};
  add_matmul(Strided<T>(args.a, 1, args.a_stride), args.m, Strided<T>(args.b, 1, args.b_stride), args.n,
             position, args.offsets[group], args.offsets[group + 1], sums);
  T* c = args.c + group * args.m * args.n;
  for_results(position, args.m, args.n, sums, [&](std::int64_t row, std::int64_t column, float sum) {
    store(c + row * args.n + column, sum, args.accumulate);
  });
}

template <class T>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_grouped_outer_kernel(const __grid_constant__ GroupedOuter<T> args) {
  const std::int64_t across = (args.n + kTensorTile - 1) / kTensorTile, group = blockIdx.y;
  const std::int64_t row0 = blockIdx.x / across * kTensorTile, column0 = blockIdx.x % across * kTensorTile;
  const std::int64_t begin = args.offsets[group], end = args.offsets[group + 1];
  TensorSums sums;
  add_mma(sums, TensorOperand<T, true>(args.a, args.a_stride, {row0, args.m, begin, end}),
          TensorOperand<T, true>(args.b, args.b_stride, {column0, args.n, begin, end}), end - begin);
  store_mma(sums, args.c + group * args.m * args.n, args.n, row0, args.m, column0, args.n, args.accumulate);
}

bool suits_tensor_cores(const GroupedGemmArgs& args) {
  const View& b = args.b;
  const bool along = b.stride(1) == 1 || b.stride(2) == 1;
  return along && in_vectors(args.a, {args.a.stride(0), args.a.dim(1)}) &&
         in_vectors(b, {b.stride(0), b.stride(1) == 1 ? b.stride(2) : b.stride(1), b.dim(1), b.dim(2)}) &&
         in_vectors(args.c, {args.c.stride(0)});
}
bool suits_tensor_cores(const GroupedOuterArgs& args) {
  return in_vectors(args.a, {args.a.stride(0), args.a.dim(1)}) &&
         in_vectors(args.b, {args.b.stride(0), args.b.dim(1)}) && in_vectors(args.c, {});
}

void run_tensor_grouped_gemm(const GroupedGemmArgs& args, Stream stream) {
  if (args.c.numel() == 0) return;
  dispatch_device_half(args.a.dtype, [&]<class T>() {
    const auto across = static_cast<unsigned>((args.c.dim(1) + kTensorTile - 1) / kTensorTile);
    const Size3 grid{across * most_tiles(args.a.dim(0), args.b.dim(0), kTensorTile)};
    const auto run = [&]<bool b_transposed>() {
      launch({"grouped_gemm", stream, args.a}, tensor_grouped_gemm_kernel<T, b_transposed>, grid,
             Size3{kTensorThreads}, kTensorMemory<TensorOperand<T, false>, TensorOperand<T, b_transposed>>,
             GroupedGemm<T>(args));
    };
    if (args.b.stride(1) == 1) return run.template operator()<false>();
    run.template operator()<true>();
  });
}

void run_grouped_gemm(const GroupedGemmArgs& args, Stream stream) {
  if (args.c.numel() == 0) return;
  dispatch_device_float(args.a.dtype, "grouped_gemm", [&]<class T>() {
    const unsigned across = static_cast<unsigned>((args.c.dim(1) + kTile - 1) / kTile);
    launch({"grouped_gemm", stream, args.a}, grouped_gemm_kernel<T>,
           Size3{across * most_tiles(args.a.dim(0), args.b.dim(0), kTile)}, Size3{kTileThreads}, 0,
           GroupedGemm<T>(args));
  });
}

void run_tensor_grouped_outer(const GroupedOuterArgs& args, Stream stream) {
  if (args.c.numel() == 0) return;
  dispatch_device_half(args.a.dtype, [&]<class T>() {
    const auto tiles_of = [](std::int64_t positions) { return (positions + kTensorTile - 1) / kTensorTile; };
    using Side = TensorOperand<T, true>;
    launch({"grouped_outer", stream, args.a}, tensor_grouped_outer_kernel<T>,
           Size3{static_cast<unsigned>(tiles_of(args.a.dim(1)) * tiles_of(args.b.dim(1))),
                 static_cast<unsigned>(args.c.dim(0))},
           Size3{kTensorThreads}, kTensorMemory<Side, Side>, GroupedOuter<T>(args));
  });
}

void run_grouped_outer(const GroupedOuterArgs& args, Stream stream) {
  if (args.c.numel() == 0) return;
  dispatch_device_float(args.a.dtype, "grouped_outer", [&]<class T>() {
    launch({"grouped_outer", stream, args.a}, grouped_outer_kernel<T>,
           Size3{static_cast<unsigned>(tiles(args.a.dim(1), args.b.dim(1))),
                 static_cast<unsigned>(args.c.dim(0))},
           Size3{kTileThreads}, 0, GroupedOuter<T>(args));
  });
}

constexpr int kRouteThreads = 512;

/// Block e puts expert e's pairs behind those of the experts before it, which it counts.
__global__ void __launch_bounds__(kRouteThreads)
    route_kernel(const std::int64_t* experts, std::int64_t pairs, std::int64_t choices, std::int64_t count,
                 std::int64_t* offsets, std::int64_t* tokens, std::int64_t* sorted, std::int64_t* positions) {
  INGOT_SHARED_ARRAY(int, found, kRouteThreads / kWarp);
  const std::int64_t expert = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  long long lower = 0;
  for (std::int64_t pair = threadIdx.x; pair < pairs; pair += kRouteThreads)
    lower += experts[pair] < expert ? 1 : 0;
  std::int64_t next = ThreadGroup<kRouteThreads>::sum(lower);
  if (threadIdx.x == 0) offsets[expert] = next;
  if (expert == count) return;  // the end of the last one's
  for (std::int64_t pair0 = 0; pair0 < pairs; pair0 += kRouteThreads) {
    const std::int64_t pair = pair0 + threadIdx.x;
    const bool mine = pair < pairs && experts[pair] == expert;
    const unsigned of_warp = __ballot_sync(kAllLanes, mine ? 1 : 0);
    if (lane == 0) found[warp] = __popc(of_warp);
    __syncthreads();
    std::int64_t position = next + __popc(of_warp & ((1U << lane) - 1));
    for (int w = 0; w < kRouteThreads / kWarp; ++w) {
      if (w < warp) position += found[w];
      next += found[w];
    }
    if (mine) {
      positions[pair] = position;
      tokens[position] = pair / choices;
      sorted[position] = expert;
    }
    __syncthreads();  // found has been read
  }
}

void run_route(const RouteArgs& args, Stream stream) {
  const std::int64_t count = args.offsets.dim(0) - 1;
  launch({"route", stream, args.experts}, route_kernel, Size3{static_cast<unsigned>(count + 1)},
         Size3{kRouteThreads}, 0, args.experts.as<std::int64_t>(), args.experts.numel(), args.experts.dim(1),
         count, args.offsets.as<std::int64_t>(), args.tokens.as<std::int64_t>(),
         args.sorted.as<std::int64_t>(), args.positions.as<std::int64_t>());
}

}  // namespace

void register_grouped() {
  grouped_gemm.add(DeviceType::cuda, {"tensor_cores", ImplKind::cuda,
                                      [](const GroupedGemmArgs& args) { return suits_tensor_cores(args); },
                                      run_tensor_grouped_gemm});
  grouped_gemm.add(
      DeviceType::cuda,
      {"tiled", ImplKind::cuda, [](const GroupedGemmArgs& args) { return is_device_float(args.a.dtype); },
       run_grouped_gemm});
  grouped_outer.add(DeviceType::cuda, {"tensor_cores", ImplKind::cuda,
                                       [](const GroupedOuterArgs& args) { return suits_tensor_cores(args); },
                                       run_tensor_grouped_outer});
  grouped_outer.add(
      DeviceType::cuda,
      {"tiled", ImplKind::cuda, [](const GroupedOuterArgs& args) { return is_device_float(args.a.dtype); },
       run_grouped_outer});
  route.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_route});
}

}  // namespace ingot::kernels::cuda
