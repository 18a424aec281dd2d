#include <algorithm>
#include <bit>

#include "ingot/kernels/cuda/global_store.h"
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

// One warp per head of a token, for any sizes and strides. A position outside of the table cannot throw here:
// it gives NaNs, which show.
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

/// What a thread of rope_packs_kernel has at a time: the packs at its place in both halves of two heads.
template <class T, bool accumulate>
struct RopePacks {
  static constexpr int kVec = kPack<T>, kHeads = 2;
  Pack<T, kVec> x[kHeads][2], old[kHeads][2];

  __device__ void load(const T* from, const T* y, const RopeKernelArgs& args, std::int64_t head) {
    INGOT_UNROLL
    for (int j = 0; j < kHeads; ++j, head += blockDim.y) {
      if (head >= args.sizes[2]) continue;
      INGOT_UNROLL
      for (int side = 0; side < 2; ++side) {
        x[j][side] = load_pack<kVec>(from + head * args.x_strides[2] + side * args.half);
        if constexpr (accumulate)
          old[j][side] = load_pack<kVec>(y + head * args.y_strides[2] + side * args.half);
      }
    }
  }
  __device__ void put(T* to, int j, int side, const float (&values)[kVec]) const {
    Pack<T, kVec> pack;
    INGOT_UNROLL
    for (int v = 0; v < kVec; ++v)
      pack.values[v] = from_float<T>(accumulate ? to_float(old[j][side].values[v]) + values[v] : values[v]);
    store_global(to, pack);
  }
};

/// Cosines and sines of a thread's pairs: the first half of them belongs to places from `first` on, the other
/// to places from `second` on.
template <int count>
struct Angles {
  static constexpr int kHalf = count / 2;
  float cos[count], sin[count];

  __device__ void load(const RopeKernelArgs& args, std::int64_t position, std::int64_t first,
                       std::int64_t second) {
    const bool known = position >= 0 && position < args.table;
    const std::int64_t row = known ? position * args.half : 0;
    INGOT_UNROLL
    for (int side = 0; side < 2; ++side) {
      const std::int64_t at = row + (side == 0 ? first : second);
      const auto c = load_pack<kHalf>(args.cos + at), s = load_pack<kHalf>(args.sin + at);
      INGOT_UNROLL
      for (int v = 0; v < kHalf; ++v) {
        cos[side * kHalf + v] = known ? c.values[v] : NAN;
        sin[side * kHalf + v] = known ? (args.inverse ? -s.values[v] : s.values[v]) : NAN;
      }
    }
  }
};

// threadIdx.x is a pack's place in half a head, y one of the heads, z a token. The angles are read once for
// all heads of a thread.
template <class T, bool interleaved, bool accumulate>
__global__ void __launch_bounds__(256, accumulate ? 2 : 3)
    rope_packs_kernel(const __grid_constant__ RopeKernelArgs args) {
  constexpr int kVec = kPack<T>;
  using Packs = RopePacks<T, accumulate>;
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
  if (s >= args.sizes[1]) return;
  const std::int64_t place = std::int64_t{threadIdx.x} * kVec;
  for (std::int64_t b = blockIdx.y; b < args.sizes[0]; b += gridDim.y) {
    const T* x = static_cast<const T*>(args.x) + b * args.x_strides[0] + s * args.x_strides[1] + place;
    T* y = static_cast<T*>(args.y) + b * args.y_strides[0] + s * args.y_strides[1] + place;
    std::int64_t head = threadIdx.y;
    Packs packs;
    packs.load(x, y, args, head);  // on their way while the position and its angles are looked up
    Angles<kVec> angles;
    angles.load(args, position_of(args, b, s), interleaved ? place / 2 : place,
                interleaved ? (args.half + place) / 2 : place + kVec / 2);
    while (true) {
      INGOT_UNROLL
      for (int j = 0; j < Packs::kHeads; ++j) {
        const std::int64_t h = head + j * blockDim.y;
        if (h >= args.sizes[2]) continue;
        const auto &u = packs.x[j][0], &v = packs.x[j][1];
        float turned[2][kVec];
        INGOT_UNROLL
        for (int k = 0; k < kVec; ++k) {
          // of pair k, the two elements: in both halves, or side by side in one of them
          constexpr int kHalf = kVec / 2;
          const int side = k / kHalf, at = k % kHalf * 2;
          const float one = to_float(interleaved ? packs.x[j][side].values[at] : u.values[k]);
          const float two = to_float(interleaved ? packs.x[j][side].values[at + 1] : v.values[k]);
          const bool turns = h < args.rotated_heads;
          const float first = turns ? one * angles.cos[k] - two * angles.sin[k] : one;
          const float second = turns ? two * angles.cos[k] + one * angles.sin[k] : two;
          (interleaved ? turned[side][at] : turned[0][k]) = first;
          (interleaved ? turned[side][at + 1] : turned[1][k]) = second;
        }
        T* to = y + h * args.y_strides[2];
        packs.put(to, j, 0, turned[0]);
        packs.put(to + args.half, j, 1, turned[1]);
      }
      head += Packs::kHeads * blockDim.y;
      if (head >= args.sizes[2]) break;
      packs.load(x, y, args, head);
    }
  }
}

/// A block of rope_packs_kernel for heads of `packs` packs in each half: powers of two besides, at most 256
/// threads.
Size3 block_of(std::int64_t packs, std::int64_t heads) {
  constexpr std::uint64_t kThreads = 256, kHeadsOfThread = 4, kMostZ = 64;
  const auto x = static_cast<std::uint64_t>(packs);
  const auto shared = (static_cast<std::uint64_t>(heads) + kHeadsOfThread - 1) / kHeadsOfThread;
  const std::uint64_t y = std::bit_floor(std::min(shared, kThreads / x));
  const std::uint64_t z = std::bit_floor(std::min(kThreads / (x * y), kMostZ));
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

/// Whether rope_packs_kernel applies: whole packs everywhere, and every element of a head has a pair.
bool in_packs(const RopeArgs& args, std::int64_t vec) {
  const std::int64_t half = args.cos.dim(1);
  if (half == 0 || half % vec != 0 || half / vec > 128 || 2 * half != args.x.dim(3)) return false;
  for (const View* view : {&args.x, &args.y, &args.cos, &args.sin})
    if (reinterpret_cast<std::uintptr_t>(view->data) % 16 != 0) return false;
  for (int i = 0; i < 3; ++i)
    if (args.x.stride(i) % vec != 0 || args.y.stride(i) % vec != 0) return false;
  const Size3 block = block_of(half / vec, args.x.dim(2));
  return block.x * block.y * block.z % kWarp == 0;
}

template <class T>
void run_packs(const RopeArgs& args, const RopeKernelArgs& kernel_args, Stream stream) {
  constexpr std::int64_t kMostY = 65535;
  const Size3 block = block_of(kernel_args.half / kPack<T>, args.x.dim(2));
  const Size3 grid{static_cast<unsigned>((args.x.dim(1) + block.z - 1) / block.z),
                   static_cast<unsigned>(std::min(args.x.dim(0), kMostY))};
  const auto go = [&](auto kernel) { launch({"rope", stream, args.x}, kernel, grid, block, 0, kernel_args); };
  if (args.interleaved)
    return go(args.accumulate ? rope_packs_kernel<T, true, true> : rope_packs_kernel<T, true, false>);
  go(args.accumulate ? rope_packs_kernel<T, false, true> : rope_packs_kernel<T, false, false>);
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
    if (in_packs(args, kPack<T>)) return run_packs<T>(args, kernel_args, stream);
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
