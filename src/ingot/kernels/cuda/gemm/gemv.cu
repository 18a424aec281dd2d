#include "ingot/kernels/cuda/device/functions.h"
#include "ingot/kernels/cuda/device/row_vectors.h"
#include "ingot/kernels/cuda/device/tensor_core.h"
#include "ingot/kernels/cuda/hardware/global_memory.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/gemm.h"

// Matmuls of few rows of x with the transpose of a weight, as in decoding: reading the weight is nearly all
// of their work. A block takes a tile of the weight's rows, and its warps alternate along the depth, so that
// enough of the weight is under way where it has few rows too. Each lane keeps 8 loads of 16 bytes of it
// ahead.
//
// What a row of x gives depends on nothing but itself and the weights of the launch: where a term comes in
// its sum follows from its position in the depth, and rows are summed apart. So sequences of one
// batch, and draft tokens, get the bits that they get alone.
namespace ingot::kernels::cuda {
namespace {

constexpr std::int64_t kMostRows = 8, kMostHalfRows = 16;
constexpr std::int64_t kDeepest = std::int64_t{1} << 30;  // positions in it are ints

struct GemvWeight {
  const void *weight, *bias;
  void* y;
  std::int64_t n, weight_stride, y_stride;
  unsigned first_tile;  ///< of those of all weights
};

struct GemvArgs {
  const void* x;
  std::int64_t m, k, x_stride;
  float alpha, beta;
  GemvWeight weights[GemmEachArgs::kMost];  // those that are not there begin behind all tiles
};

/// The last one stands in for those beyond it; what comes of them is not written.
__device__ __forceinline__ std::int64_t row_within(std::int64_t row, std::int64_t rows) {
  return row < rows ? row : rows - 1;
}

/// Where a block works: on a tile of `size` rows of one of the weights. Gated, weights 0 and 1 are gate and
/// up, and half of the tile are rows of gate, the other half the same rows of up: what silu(gate) · up takes.
template <int size, bool gated>
struct GemvTile {
  static constexpr bool kGated = gated;
  static constexpr int kColumns = gated ? size / 2 : size;  ///< of y
  const GemvWeight& of;
  std::int64_t first_row;

  __device__ __forceinline__ explicit GemvTile(const GemvArgs& args)
      : of(args.weights[gated ? 0 : weight_of(args)]),
        first_row(std::int64_t{blockIdx.x - of.first_tile} * kColumns) {}

  template <class W>
  __device__ __forceinline__ const W* row(const GemvArgs& args, int i) const {
    const GemvWeight& weight = gated && i >= kColumns ? args.weights[1] : of;
    return static_cast<const W*>(weight.weight) +
           row_within(first_row + (gated ? i % kColumns : i), weight.n) * weight.weight_stride;
  }

 private:
  __device__ __forceinline__ static int weight_of(const GemvArgs& args) {
    int weight = 0;
    INGOT_UNROLL
    for (int i = 1; i < GemmEachArgs::kMost; ++i) weight += blockIdx.x >= args.weights[i].first_tile ? 1 : 0;
    return weight;
  }
};

template <class Y>
__device__ __forceinline__ float with_bias(float value, const GemvWeight& of, std::int64_t column) {
  return of.bias == nullptr ? value : value + to_float(static_cast<const Y*>(of.bias)[column]);
}

/// Adds up, in their order, what the warps left in `sums`, `size` numbers each, and writes y. position(row of
/// the tile, row of x) says which number that is.
template <class Y, int warps, int size, class Tile, class Position>
__device__ __forceinline__ void write_tile(const GemvArgs& args, const float* sums, Position position) {
  constexpr int kColumns = Tile::kColumns;
  const Tile at(args);
  for (int i = static_cast<int>(threadIdx.x); i < kColumns * static_cast<int>(args.m); i += warps * kWarp) {
    const int row = i / kColumns, in_tile = i % kColumns;
    const std::int64_t column = at.first_row + in_tile;
    if (column >= at.of.n) continue;
    const auto sum_of = [&](int row_of_tile) {
      float sum = 0;
      INGOT_UNROLL
      for (int w = 0; w < warps; ++w) sum += sums[w * size + position(row_of_tile, row)];
      return sum;
    };
    Y* to = static_cast<Y*>(at.of.y) + row * at.of.y_stride + column;
    if constexpr (Tile::kGated) {
      const Y gate = from_float<Y>(with_bias<Y>(sum_of(in_tile), args.weights[0], column));
      const Y up = from_float<Y>(with_bias<Y>(sum_of(in_tile + kColumns), args.weights[1], column));
      *to = from_float<Y>(silu(to_float(gate)) * to_float(up));
    } else {
      float value = args.alpha * sum_of(in_tile);
      if (args.beta != 0.0F) value += args.beta * to_float(*to);
      *to = from_float<Y>(with_bias<Y>(value, at.of, column));
    }
  }
}

// In bf16 and f16 on tensor cores: 16 rows of the weight are the left side, 8 rows of x the columns of the
// right. Where a fragment has positions 2t, 2t + 1, 2t + 8 and 2t + 9 of a depth of 16, it is given four
// neighbours, of both sides alike, which leaves the matmul as it is: so 16 bytes of a row, as they are
// loaded, are a lane's part of two fragments.

constexpr int kTensorTile = 16, kPartDepth = 32, kParts = 4;
/// How many warps a multiprocessor should hold at least: 80 registers to a lane, or 128.
template <int eights>
constexpr int kTensorWarps = eights == 1 ? 24 : 16;

/// Where a lane reads: two rows of the weight, `eights` of x, from its first column on.
template <class T, int eights, class Tile>
struct TensorPosition {
  const T *weight, *weight8, *x[eights];
  bool has_x[eights];
  int left;  ///< columns to the end

  __device__ __forceinline__ TensorPosition(const GemvArgs& args, int column) {
    const int row = static_cast<int>(threadIdx.x) % kWarp / 4;
    const Tile at(args);
    weight = at.template row<T>(args, row) + column;
    weight8 = at.template row<T>(args, row + 8) + column;
    INGOT_UNROLL
    for (int e = 0; e < eights; ++e) {
      has_x[e] = row + 8 * e < args.m;
      x[e] = static_cast<const T*>(args.x) + (has_x[e] ? (row + 8 * e) * args.x_stride : 0) + column;
    }
    left = static_cast<int>(args.k) - column;
  }
  __device__ __forceinline__ void advance(int columns) {
    weight += columns;
    weight8 += columns;
    INGOT_UNROLL
    for (int e = 0; e < eights; ++e) x[e] += columns;
    left -= columns;
  }
};

/// A lane's part of 16 rows of the weight and of 8 · eights rows of x, over a depth of 32.
template <class T, int eights>
struct TensorPart {
  using Words = Vector<std::uint32_t, 4>;
  Words low, high, x[eights];

  /// So many columns further on; zeros behind the end, and for rows of x that there are not.
  template <class Tile>
  __device__ __forceinline__ void load(const TensorPosition<T, eights, Tile>& from, int columns) {
    low = high = {};
    INGOT_UNROLL
    for (int e = 0; e < eights; ++e) x[e] = {};
    if (columns >= from.left) return;
    low = load_once<Words>(from.weight + columns);
    high = load_once<Words>(from.weight8 + columns);
    INGOT_UNROLL
    for (int e = 0; e < eights; ++e)
      if (from.has_x[e]) x[e] = bits_as<Words>(load_vector<8>(from.x[e] + columns));
  }
  __device__ __forceinline__ void multiply(SumFragment (&sums)[eights]) const {
    INGOT_UNROLL
    for (int i = 0; i < 4; i += 2) {
      const LeftFragment left{{low.values[i], high.values[i], low.values[i + 1], high.values[i + 1]}};
      INGOT_UNROLL
      for (int e = 0; e < eights; ++e)
        multiply_add<T>(sums[e], left, RightFragment{{x[e].values[i], x[e].values[i + 1]}});
    }
  }
};

template <class T, int warps, int eights, class Tile>
__global__ void __launch_bounds__(warps* kWarp, kTensorWarps<eights> / warps)
    gemv_tensor_kernel(const __grid_constant__ GemvArgs args) {
  constexpr int kPitch = kTensorTile + 4;  // no bank conflicts
  constexpr int kSize = 8 * eights * kPitch;
  constexpr int kTurn = kParts * kPartDepth, kStep = warps * kTurn;
  INGOT_SHARED_ARRAY(float, all_sums, warps* kSize);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  TensorPosition<T, eights, Tile> from(args, warp * kTurn + lane % 4 * 8);
  TensorPart<T, eights> parts[kParts];
  SumFragment sums[eights];
  INGOT_UNROLL
  for (int p = 0; p < kParts; ++p) parts[p].load(from, p * kPartDepth);
  const auto depth = static_cast<int>(args.k);
  // Two iterations at once would take more registers than there are.
  INGOT_ROLLED
  for (int begin = warp * kTurn; begin < depth; begin += kStep) {
    from.advance(kStep);
    INGOT_UNROLL
    for (int p = 0; p < kParts; ++p) {
      parts[p].multiply(sums);
      parts[p].load(from, p * kPartDepth);
    }
  }
  const FragmentPosition position;
  INGOT_UNROLL
  for (int i = 0; i < 4 * eights; ++i)
    all_sums[warp * kSize + (i / 4 * 8 + position.column + i % 2) * kPitch + position.row + i % 4 / 2 * 8] =
        sums[i / 4].values[i % 4];
  __syncthreads();
  write_tile<T, warps, kSize, Tile>(args, all_sums, [](int in_tile, int r) { return r * kPitch + in_tile; });
}

// With x in f32: the lanes of a warp lie along the depth, each multiplies what it loaded of four rows of the
// weight with all rows of x.

constexpr int kFloatTile = 4, kFloatWarps = 8, kSteps = 2;

/// A lane's part of four rows of the weight, one access of each.
template <class W>
struct FloatPart {
  static constexpr int kVec = kVector<W>;
  Elements<W, kVec> weight[kFloatTile];

  __device__ __forceinline__ void load(const W* const (&rows)[kFloatTile], std::int64_t column,
                                       std::int64_t k) {
    INGOT_UNROLL
    for (int i = 0; i < kFloatTile; ++i) {
      weight[i] = {};
      if (column < k) weight[i] = load_once<Elements<W, kVec>>(rows[i] + column);
    }
  }
  /// sums[i · rows + r] += row i of the weight · row r of x, from the lane's column on.
  template <int rows>
  __device__ __forceinline__ void multiply(float (&sums)[kFloatTile * rows], const GemvArgs& args,
                                           std::int64_t column) const {
    if (column >= args.k) return;
    INGOT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const float* from = static_cast<const float*>(args.x) + row_within(r, args.m) * args.x_stride + column;
      INGOT_UNROLL
      for (int v = 0; v < kVec; v += 4) {
        const Vector<float, 4> x = load_vector<4>(from + v);
        INGOT_UNROLL
        for (int i = 0; i < 4 * kFloatTile; ++i) {
          float& sum = sums[i / 4 * rows + r];
          sum = fmaf(weight[i / 4].get(v + i % 4), x.values[i % 4], sum);
        }
      }
    }
  }
};

template <class W, int rows, class Tile>
__global__ void __launch_bounds__(kFloatWarps* kWarp)
    gemv_float_kernel(const __grid_constant__ GemvArgs args) {
  constexpr int kSize = kFloatTile * rows, kPartDepth = FloatPart<W>::kVec * kWarp;
  constexpr std::int64_t kStep = std::int64_t{kFloatWarps} * kSteps * kPartDepth;
  INGOT_SHARED_ARRAY(float, all_sums, kFloatWarps* kSize);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const Tile at(args);
  const W* weight_rows[kFloatTile];
  INGOT_UNROLL
  for (int i = 0; i < kFloatTile; ++i) weight_rows[i] = at.template row<W>(args, i);
  FloatPart<W> parts[kSteps];
  float sums[kSize] = {};
  std::int64_t column = warp * (kSteps * kPartDepth) + lane * FloatPart<W>::kVec;
  INGOT_UNROLL
  for (int s = 0; s < kSteps; ++s) parts[s].load(weight_rows, column + s * kPartDepth, args.k);
  for (; column < args.k; column += kStep) {
    INGOT_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      parts[s].template multiply<rows>(sums, args, column + s * kPartDepth);
      parts[s].load(weight_rows, column + kStep + s * kPartDepth, args.k);
    }
  }
  share_sums<kWarp, 1, kSize>(sums);
  constexpr int kTwins = kWarp / kSize;  // lanes that have the same sum
  if (lane % kTwins == 0) all_sums[warp * kSize + lane / kTwins] = sums[0];
  __syncthreads();
  write_tile<float, kFloatWarps, kSize, Tile>(args, all_sums,
                                              [](int in_tile, int r) { return in_tile * rows + r; });
}

// A matmul, or several of one x, as the launch sees them.

struct GemvMatmuls {
  const GemmArgs* all;
  int count;
  const char* kernel;
  const GemmArgs& first() const { return all[0]; }
  std::int64_t rows() const { return first().c.dim(-2); }
  std::int64_t columns() const {
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += all[i].c.dim(-1);
    return sum;
  }
};

template <class Tile, class... Parameters>
void launch_tiles(const GemvMatmuls& matmuls, Stream stream, void (*kernel)(Parameters...), int warps) {
  const GemmArgs& first = matmuls.first();
  GemvArgs made{.x = first.a.data,
                .m = matmuls.rows(),
                .k = first.a.dim(-1),
                .x_stride = first.a.stride(-2),
                .alpha = first.alpha,
                .beta = first.beta,
                .weights = {}};
  unsigned tiles = 0;
  for (int i = 0; i < matmuls.count; ++i) {
    const GemmArgs& args = matmuls.all[i];
    made.weights[i] = {.weight = args.b.data,
                       .bias = args.bias.data,
                       .y = args.c.data,
                       .n = args.c.dim(-1),
                       .weight_stride = args.b.stride(-1),
                       .y_stride = args.c.stride(-2),
                       .first_tile = tiles};
    if (Tile::kGated && i > 0) continue;  // in the tiles of the first
    tiles += static_cast<unsigned>((args.c.dim(-1) + Tile::kColumns - 1) / Tile::kColumns);
  }
  for (int i = matmuls.count; i < GemmEachArgs::kMost; ++i) made.weights[i].first_tile = tiles;
  launch({matmuls.kernel, stream, first.c}, kernel, Size3{tiles}, Size3{static_cast<unsigned>(warps * kWarp)},
         0, made);
}

template <class T, bool gated>
void run_tensor(const GemvMatmuls& matmuls, Stream stream) {
  // Where there are no more tiles than multiprocessors, each of them has but one block.
  constexpr std::int64_t kOneEach = 2048;
  using Tile = GemvTile<kTensorTile, gated>;
  const auto run = [&]<int eights>() {
    if (matmuls.columns() <= kOneEach)
      return launch_tiles<Tile>(matmuls, stream, gemv_tensor_kernel<T, 16, eights, Tile>, 16);
    launch_tiles<Tile>(matmuls, stream, gemv_tensor_kernel<T, 8, eights, Tile>, 8);
  };
  if (matmuls.rows() <= 8) return run.template operator()<1>();
  run.template operator()<2>();
}

template <class W, bool gated>
void run_float(const GemvMatmuls& matmuls, Stream stream) {
  using Tile = GemvTile<kFloatTile, gated>;
  const auto run = [&]<int rows>() {
    launch_tiles<Tile>(matmuls, stream, gemv_float_kernel<W, rows, Tile>, kFloatWarps);
  };
  const std::int64_t m = matmuls.rows();
  if (m == 1) return run.template operator()<1>();
  if (m == 2) return run.template operator()<2>();
  if (m <= 4) return run.template operator()<4>();
  run.template operator()<8>();
}

template <bool gated>
void run_matmuls(const GemvMatmuls& matmuls, Stream stream) {
  const GemmArgs& first = matmuls.first();
  if (first.a.dtype == DType::f32)
    return dispatch_device_float(first.b.dtype, matmuls.kernel,
                                 [&]<class W>() { run_float<W, gated>(matmuls, stream); });
  dispatch_device_half(first.a.dtype, [&]<class T>() { run_tensor<T, gated>(matmuls, stream); });
}

void run(const GemmArgs& args, Stream stream) { run_matmuls<false>({&args, 1, "gemm"}, stream); }

template <bool gated>
void run_all(const GemmEachArgs& args, const char* kernel, Stream stream) {
  GemmArgs all[GemmEachArgs::kMost];
  for (int i = 0; i < args.count; ++i) all[i] = args.one(i);
  run_matmuls<gated>({all, args.count, kernel}, stream);
}

void run_each(const GemmEachArgs& args, Stream stream) { run_all<false>(args, "gemm_each", stream); }

void run_gated(const GemmSiluMulArgs& args, Stream stream) {
  run_all<true>(args.matmuls(), "gemm_silu_mul", stream);
}

/// Whether lines of a matrix, each of `size` neighbours, can be read 16 bytes at a time.
bool in_vectors(const View& x, std::int64_t neighbour_stride, std::int64_t lines, std::int64_t line_stride) {
  return neighbour_stride == 1 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
         (lines == 1 || line_stride * static_cast<std::int64_t>(byte_size(x.dtype)) % 16 == 0);
}

bool takes(const GemmArgs& args) {
  const std::int64_t m = args.c.dim(-2), n = args.c.dim(-1), k = args.a.dim(-1);
  const DType x = args.a.dtype, weight = args.b.dtype;
  if (!is_device_float(x) || args.c.dtype != x) return false;
  if (weight != x && !(x == DType::f32 && is_half_precision(weight))) return false;
  if (m == 0 || m > (x == DType::f32 ? kMostRows : kMostHalfRows) || args.c.numel() != m * n) return false;
  if (args.a.numel() != m * k || n == 0 || k == 0 || k % 8 != 0 || k > kDeepest || args.c.stride(-1) != 1)
    return false;
  if (args.bias && (args.bias.dtype != x || (n > 1 && args.bias.stride(0) != 1))) return false;
  return in_vectors(args.a, args.a.stride(-1), m, args.a.stride(-2)) &&
         in_vectors(args.b, args.b.stride(-2), n, args.b.stride(-1));
}

bool takes_each(const GemmEachArgs& args) {
  for (int i = 0; i < args.count; ++i)
    if (args.matmuls[i].b.dtype != args.matmuls[0].b.dtype || !takes(args.one(i))) return false;
  return args.count > 0;
}

}  // namespace

void register_gemv() {
  gemm.add(DeviceType::cuda, {"gemv", ImplKind::cuda, takes, run});
  gemm_each.add(DeviceType::cuda, {"gemv", ImplKind::cuda, takes_each, run_each});
  gemm_silu_mul.add(DeviceType::cuda,
                    {"gemv", ImplKind::cuda,
                     [](const GemmSiluMulArgs& args) { return takes_each(args.matmuls()); }, run_gated});
}

}  // namespace ingot::kernels::cuda
