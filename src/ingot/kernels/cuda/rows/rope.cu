#include <algorithm>
#include <bit>

#include "ingot/kernels/cuda/hardware/global_memory.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/token_angles.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cuda {
namespace {

/// What a layer of the grid along z rotates.
struct RopeOperand {
  const void* x;
  void* y;
  std::int64_t heads, x_strides[3], y_strides[3];  // [B, S, H, D]; the last axis is adjacent
};

struct RopeKernelArgs {
  TokenAngles angles;
  std::int64_t batch, tokens, size;  // B, S, D
  bool interleaved, inverse, accumulate;
  RopeOperand
      operands[2];  // last: where the emulator clears padding behind an array, g++ 12 misses its index
};

// One warp per head of a token, for any sizes and strides. A position outside of the table cannot throw here:
// it gives NaNs, which show.
template <class T>
__global__ void rope_kernel(const __grid_constant__ RopeKernelArgs args) {
  const RopeOperand& of = args.operands[blockIdx.z];
  const std::int64_t heads = args.batch * args.tokens * of.heads;
  const std::int64_t warps = std::int64_t{gridDim.x} * (blockDim.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (std::int64_t i = std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp; i < heads;
       i += warps) {
    const std::int64_t h = i % of.heads, token = i / of.heads;
    const std::int64_t s = token % args.tokens, b = token / args.tokens;
    const T* x =
        static_cast<const T*>(of.x) + b * of.x_strides[0] + s * of.x_strides[1] + h * of.x_strides[2];
    T* y = static_cast<T*>(of.y) + b * of.y_strides[0] + s * of.y_strides[1] + h * of.y_strides[2];
    const TokenAngles& angles = args.angles;
    const std::int64_t pairs = h < angles.rotated_heads ? angles.half : 0;
    const std::int64_t position = pairs > 0 ? angles.position(b, s) : 0;
    const bool known = angles.has(position);
    for (std::int64_t k = lane; k < pairs; k += kWarp) {
      const std::int64_t first = args.interleaved ? 2 * k : k,
                         second = args.interleaved ? 2 * k + 1 : k + pairs;
      const float cos = known ? angles.cos[position * pairs + k] : NAN;
      const float sin = known ? angles.sin[position * pairs + k] : NAN;
      const float u = to_float(x[first]), v = to_float(x[second]), w = args.inverse ? -sin : sin;
      const RotatedPair rotated = rotate_pair(u, v, cos, w);
      store(y + first, rotated.first, args.accumulate);
      store(y + second, rotated.second, args.accumulate);
    }
    for (std::int64_t k = 2 * pairs + lane; k < args.size; k += kWarp)
      store(y + k, to_float(x[k]), args.accumulate);
  }
}

/// What a thread of rope_vectors_kernel has at a time: the vectors at its index in both halves of two heads.
template <class T, bool accumulate>
struct RopeVectors {
  static constexpr int kVec = kVector<T>, kHeads = 2;
  Vector<T, kVec> x[kHeads][2], old[kHeads][2];

  __device__ void load(const T* from, const T* y, const RopeOperand& of, std::int64_t half, int head) {
    INGOT_UNROLL
    for (int j = 0; j < kHeads; ++j, head += static_cast<int>(blockDim.y)) {
      if (head >= of.heads) continue;
      INGOT_UNROLL
      for (int side = 0; side < 2; ++side) {
        x[j][side] = load_vector<kVec>(from + head * of.x_strides[2] + side * half);
        if constexpr (accumulate) old[j][side] = load_vector<kVec>(y + head * of.y_strides[2] + side * half);
      }
    }
  }
  __device__ void put(T* to, int j, int side, const float (&values)[kVec]) const {
    Vector<T, kVec> vector;
    INGOT_UNROLL
    for (int v = 0; v < kVec; ++v)
      vector.values[v] = from_float<T>(accumulate ? to_float(old[j][side].values[v]) + values[v] : values[v]);
    store_global(to, vector);
  }
};

/// Cosines and sines of a thread's pairs: the first half of them belongs to indices from `first` on, the
/// other to indices from `second` on.
template <int count>
struct Angles {
  static constexpr int kHalf = count / 2;
  float cos[count], sin[count];

  __device__ void load(const RopeKernelArgs& args, std::int64_t position, std::int64_t first,
                       std::int64_t second) {
    INGOT_UNROLL
    for (int side = 0; side < 2; ++side) {
      args.angles.load<kHalf>(position, side == 0 ? first : second, args.inverse, cos + side * kHalf,
                              sin + side * kHalf);
    }
  }
};

// threadIdx.x is a vector's index in half a head, y one of the heads, z a token. The angles are read once for
// all heads of a thread.
template <class T, bool interleaved, bool accumulate>
__global__ void __launch_bounds__(256, accumulate ? 2 : 3)
    rope_vectors_kernel(const __grid_constant__ RopeKernelArgs args) {
  constexpr int kVec = kVector<T>;
  using Vectors = RopeVectors<T, accumulate>;
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
  if (s >= args.tokens) return;
  const RopeOperand& of = args.operands[blockIdx.z];
  const std::int64_t index = std::int64_t{threadIdx.x} * kVec, half = args.angles.half;
  for (std::int64_t b = blockIdx.y; b < args.batch; b += gridDim.y) {
    const T* x = static_cast<const T*>(of.x) + b * of.x_strides[0] + s * of.x_strides[1] + index;
    T* y = static_cast<T*>(of.y) + b * of.y_strides[0] + s * of.y_strides[1] + index;
    int head = static_cast<int>(threadIdx.y);
    Vectors vectors;
    vectors.load(x, y, of, half, head);  // on their way while the position and its angles are looked up
    Angles<kVec> angles;
    angles.load(args, args.angles.position(b, s), interleaved ? index / 2 : index,
                interleaved ? (half + index) / 2 : index + kVec / 2);
    while (true) {
      INGOT_UNROLL
      for (int j = 0; j < Vectors::kHeads; ++j) {
        const int h = head + j * static_cast<int>(blockDim.y);
        if (h >= of.heads) continue;
        const auto &u = vectors.x[j][0], &v = vectors.x[j][1];
        float rotated[2][kVec];
        INGOT_UNROLL
        for (int k = 0; k < kVec; ++k) {
          // of pair k, the two elements: in both halves, or adjacent in one of them
          constexpr int kHalf = kVec / 2;
          const int side = k / kHalf, at = k % kHalf * 2;
          const float one = to_float(interleaved ? vectors.x[j][side].values[at] : u.values[k]);
          const float two = to_float(interleaved ? vectors.x[j][side].values[at + 1] : v.values[k]);
          const bool rotates = h < args.angles.rotated_heads;
          const RotatedPair pair =
              rotates ? rotate_pair(one, two, angles.cos[k], angles.sin[k]) : RotatedPair{one, two};
          (interleaved ? rotated[side][at] : rotated[0][k]) = pair.first;
          (interleaved ? rotated[side][at + 1] : rotated[1][k]) = pair.second;
        }
        T* to = y + h * of.y_strides[2];
        vectors.put(to, j, 0, rotated[0]);
        vectors.put(to + half, j, 1, rotated[1]);
      }
      head += Vectors::kHeads * static_cast<int>(blockDim.y);
      if (head >= of.heads) break;
      vectors.load(x, y, of, half, head);
    }
  }
}

/// A block of rope_vectors_kernel for heads of `vectors` vectors in each half: powers of two besides, at most
/// 256 threads.
Size3 block_of(std::int64_t vectors, std::int64_t heads) {
  constexpr std::uint64_t kThreads = 256, kHeadsOfThread = 4, kMostZ = 64;
  const auto x = static_cast<std::uint64_t>(vectors);
  const auto shared = (static_cast<std::uint64_t>(heads) + kHeadsOfThread - 1) / kHeadsOfThread;
  const std::uint64_t y = std::bit_floor(std::min(shared, kThreads / x));
  const std::uint64_t z = std::bit_floor(std::min(kThreads / (x * y), kMostZ));
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

std::int64_t most_heads(const RopeArgs& args) {
  return args.also_x ? std::max(args.x.dim(2), args.also_x.dim(2)) : args.x.dim(2);
}

/// Whether rope_vectors_kernel applies: whole vectors everywhere, and every element of a head has a pair.
bool in_vectors(const RopeArgs& args, std::int64_t vec) {
  const std::int64_t half = args.angles.cos.dim(1);
  if (half == 0 || half % vec != 0 || half / vec > 128 || 2 * half != args.x.dim(3)) return false;
  if (!angles_in_vectors(args.angles)) return false;
  for (const View* view : {&args.x, &args.y, &args.also_x, &args.also_y})
    if (!heads_in_vectors(*view, vec)) return false;
  const Size3 block = block_of(half / vec, most_heads(args));
  return block.x * block.y * block.z % kWarp == 0;
}

template <class T>
void run_vectors(const RopeArgs& args, const RopeKernelArgs& kernel_args, Stream stream, unsigned operands) {
  constexpr std::int64_t kMostY = 65535;
  const Size3 block = block_of(kernel_args.angles.half / kVector<T>, most_heads(args));
  const Size3 grid{static_cast<unsigned>((args.x.dim(1) + block.z - 1) / block.z),
                   static_cast<unsigned>(std::min(args.x.dim(0), kMostY)), operands};
  const auto go = [&](auto kernel) { launch({"rope", stream, args.x}, kernel, grid, block, 0, kernel_args); };
  if (args.angles.interleaved)
    return go(args.accumulate ? rope_vectors_kernel<T, true, true> : rope_vectors_kernel<T, true, false>);
  go(args.accumulate ? rope_vectors_kernel<T, false, true> : rope_vectors_kernel<T, false, false>);
}

RopeOperand operand_of(const View& x, const View& y) {
  RopeOperand made{.x = x.data, .y = y.data, .heads = x.dim(2), .x_strides = {}, .y_strides = {}};
  for (int i = 0; i < 3; ++i) {
    made.x_strides[i] = x.stride(i);
    made.y_strides[i] = y.stride(i);
  }
  return made;
}

void run_rope(const RopeArgs& args, Stream stream) {
  const unsigned operands = args.also_x ? 2 : 1;
  if (args.x.numel() == 0) return;
  RopeKernelArgs kernel_args{.angles = token_angles(args.angles),
                             .batch = args.x.dim(0),
                             .tokens = args.x.dim(1),
                             .size = args.x.dim(3),
                             .interleaved = args.angles.interleaved,
                             .inverse = args.inverse,
                             .accumulate = args.accumulate,
                             .operands = {operand_of(args.x, args.y)}};
  if (args.also_x) kernel_args.operands[1] = operand_of(args.also_x, args.also_y);
  dispatch_device_float(args.x.dtype, "rope", [&]<class T>() {
    if (in_vectors(args, kVector<T>)) return run_vectors<T>(args, kernel_args, stream, operands);
    const std::int64_t heads = args.x.dim(0) * args.x.dim(1) * most_heads(args);
    launch({"rope", stream, args.x}, rope_kernel<T>,
           Size3{grid_for(stream.device, heads, 8, 32), 1, operands}, Size3{256}, 0, kernel_args);
  });
}

}  // namespace

void register_rope() {
  rope.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                              [](const RopeArgs& args) { return is_device_float(args.x.dtype); }, run_rope});
}

}  // namespace ingot::kernels::cuda
