#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/quant/panel_stream.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cuda {
namespace {

// Weights whose codes are multiplied as int8, 16 blocks of 32 columns in a stage. Of one row of x a thread
// takes a row of the panel in a block; of up to kTileRows, tensor cores take 16 rows of the panel at once,
// which leaves about as many instructions. Either way dots are exact.
constexpr int kStageBlocks = kDotThreads / kPanel, kTileRows = 8;
constexpr int kBlocksPitch = kStageBlocks * 64 + kRowGap;  // of a row of x in shared memory

/// What a stage comes to.
template <class Format, int rows>
struct alignas(16) BlockDots {
  struct Row {  // of x
    float dots[kStageBlocks][kHalves<Format>][kPanel];
    float unused[4];  // so that lanes that write four rows find other banks
  };
  Row rows_of_x[rows];
  float scales[kStageBlocks][kHalves<Format>][kPanel];
  float minimums[kHasMinimum<Format> ? kStageBlocks : 1][kPanel];
  Vector<float, 2> x[rows][kStageBlocks];  // its scale and scaled_sum
};

template <PackedFormat format, int rows>
struct QuantizedStages
    : Stages<kStageBlocks / Packed<format>::kStepBlocks * Packed<format>::kStep, rows * kBlocksPitch,
             2 * static_cast<int>(sizeof(BlockDots<Packed<format>, rows>))> {
  static constexpr int kWeight = kStageBlocks / Packed<format>::kStepBlocks * Packed<format>::kStep;
};

/// The first or second of the two blocks of a stage that a warp takes. They are in neighbouring steps, which
/// in most formats begin in different halves of the banks.
template <class Format>
struct BlockPosition {
  int block, number, at;

  __device__ __forceinline__ explicit BlockPosition(int second) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    block = warp % Format::kStepBlocks;
    number = warp / Format::kStepBlocks * 2 + second;  // of the step
    at = number * Format::kStepBlocks + block;
  }
};

/// Σ codes · x over one half of a block (all of it where there is one scale), less the zero.
template <class Format>
__device__ __forceinline__ int block_dot(const unsigned (&codes)[8], int half, const int* x) {
  constexpr int kVectors = 2 / kHalves<Format>;
  int dot = 0;
  INGOT_UNROLL
  for (int vector = half * kVectors; vector < (half + 1) * kVectors; ++vector) {
    const Vector<int, 4> words = load_vector<4>(x + 4 * vector);
    INGOT_UNROLL
    for (int i = 0; i < 4; ++i) dot = __dp4a(static_cast<int>(codes[4 * vector + i]), words.values[i], dot);
  }
  if constexpr (Format::kWide) return dot;
  // The members after the codes: scale, scaled_sum, negative_sum, negative_half_sums.
  return dot + Format::kZero * x[kHalves<Format> == 1 ? 10 : 11 + half];
}

/// One thread's dots with one row of x, of its row of the panel in a block.
template <class Format>
__device__ __forceinline__ void find_dots(const std::uint8_t* step, const BlockPosition<Format>& position,
                                          int row, const std::uint8_t* x, BlockDots<Format, 1>& found) {
  unsigned codes[8];
  INGOT_UNROLL
  for (int group = 0; group < 8; ++group) {
    codes[group] = Format::codes(step, position.block, group, row);
    if constexpr (Format::kWide) codes[group] = Format::less_zero(codes[group]);
  }
  const int* words = reinterpret_cast<const int*>(x + position.at * 64);
  int dots[kHalves<Format>];
  INGOT_UNROLL
  for (int half = 0; half < kHalves<Format>; ++half) dots[half] = block_dot<Format>(codes, half, words);
  INGOT_UNROLL
  for (int half = 0; half < kHalves<Format>; ++half)
    found.rows_of_x[0].dots[position.at][half][row] = static_cast<float>(dots[half]);
}

/// A warp's dots with kTileRows rows of x, of all rows of the panel in a block. Of rows that are not there
/// they are anything.
template <class Format>
__device__ __forceinline__ void find_tile(const std::uint8_t* step, const BlockPosition<Format>& position,
                                          const std::uint8_t* x, BlockDots<Format, kTileRows>& found) {
  constexpr int kHalf = kHalves<Format>;
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto* words = reinterpret_cast<const unsigned*>(x + g * kBlocksPitch + position.at * 64) + t;
  const auto codes = [&](int group, int row) {
    return Format::less_zero(Format::codes(step, position.block, group, row));
  };
  int dots[kHalf][4] = {};
  INGOT_UNROLL
  for (int half = 0; half < 2; ++half)  // of the columns, whether they have scales of their own or not
    multiply_add_int8(dots[half % kHalf], codes(4 * half + t, g), codes(4 * half + t, g + 8),
                      words[4 * half]);
  INGOT_UNROLL
  for (int half = 0; half < kHalf; ++half) {
    INGOT_UNROLL
    for (int i = 0; i < 4; ++i)
      found.rows_of_x[2 * t + i % 2].dots[position.at][half][g + i / 2 * 8] =
          static_cast<float>(dots[half][i]);
  }
}

/// One thread's part of a stage with `count` blocks, for `there` rows of x.
template <class Format, int rows>
__device__ __forceinline__ void find_dots(const std::uint8_t* weight, const std::uint8_t* x, int count,
                                          int there, BlockDots<Format, rows>& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = lane % kPanel;
  if constexpr (rows == kTileRows) {
    INGOT_UNROLL
    for (int second = 0; second < 2; ++second) {
      const BlockPosition<Format> position(second);
      if (position.at < count)
        find_tile<Format>(weight + position.number * Format::kStep, position, x, found);
    }
  }
  const BlockPosition<Format> position(lane / kPanel);
  if (position.at >= count) return;
  const std::uint8_t* step = weight + position.number * Format::kStep;
  if constexpr (rows == 1) find_dots<Format>(step, position, row, x, found);
  INGOT_UNROLL
  for (int half = 0; half < kHalves<Format>; ++half)
    found.scales[position.at][half][row] = Format::scale(step, position.block, half, row);
  if constexpr (kHasMinimum<Format>)
    found.minimums[position.at][row] = Format::minimum(step, position.block, row);
  if (row < there)
    found.x[row][position.at] =
        load_vector<2>(reinterpret_cast<const float*>(x + row * kBlocksPitch + position.at * 64 + 32));
}

/// y and what a stage adds to it, block after block.
template <class Format, int rows>
__device__ __forceinline__ float add_dots(const BlockDots<Format, rows>& found, int count, int r, int row,
                                          float y) {
  add_up<kStageBlocks>(count, [&](int i) {
    const Vector<float, 2> x = found.x[r][i];
    INGOT_UNROLL
    for (int half = 0; half < kHalves<Format>; ++half)
      y = fmaf(found.rows_of_x[r].dots[i][half][row], found.scales[i][half][row] * x.values[0], y);
    if constexpr (kHasMinimum<Format>) y = fmaf(found.minimums[i][row], x.values[1], y);
  });
  return y;
}

template <PackedFormat format, int rows>
__global__ void __launch_bounds__(kMatmulThreads<rows>)
    quantized_matmul_kernel(const __grid_constant__ PackedMatmulArgs args) {
  using Format = Packed<format>;
  using Stage = QuantizedStages<format, rows>;
  INGOT_DYNAMIC_SHARED(std::uint8_t, shared);
  auto* found = reinterpret_cast<BlockDots<Format, rows>*>(shared);
  const MatmulPosition position(args, rows);
  const Role role(position.rows);
  const auto blocks = static_cast<int>(args.count);
  const int stages = (blocks + kStageBlocks - 1) / kStageBlocks;
  PanelCopies<Stage::kWeight> weight(args.weight + position.panel * args.panel_bytes, args.panel_bytes,
                                     role.copier);
  RowCopies<rows, kStageBlocks * 64> x(
      static_cast<const std::uint8_t*>(args.x) + position.row0 * args.x_stride, args.x_stride, position.rows,
      blocks * 64, role.copier);
  float y = 0;
  Stage::run(
      stages,
      [&](int stage) {
        if (!role.copies) return;
        weight.next(Stage::weight(shared, stage));
        x.next(Stage::x(shared, stage));
      },
      [&](int stage) {
        if (role.multiplies && stage < stages)
          find_dots(Stage::weight(shared, stage), Stage::x(shared, stage), blocks - stage * kStageBlocks,
                    position.rows, found[stage % 2]);
        if (role.adds && stage > 0)
          y = add_dots(found[(stage - 1) % 2], blocks - (stage - 1) * kStageBlocks, role.r, role.row, y);
      });
  if (role.adds) store_result(args, position.row0 + role.r, position.panel * kPanel + role.row, y);
}

// Of rows with one scale each: whole numbers may be summed in any order, so each thread keeps its own sums to
// the end. A warp takes two blocks of a stage.
using RowScaled = Packed<PackedFormat::w8a8>;
constexpr int kGroups = 8;  // of four columns in a block
constexpr int kCodesPitch = kStageBlocks * 32 + kRowGap;
constexpr int kRowScaledThreads = kDotThreads + kCopyThreads;
template <int rows>
struct RowScaledStages : Stages<kStageBlocks * RowScaled::kLowBlock, rows * kCodesPitch, 0> {
  static constexpr int kWeight = kStageBlocks * RowScaled::kLowBlock;
};
/// A lane's sums: with one row of x, of every other group of columns; with kTileRows those of tensor cores.
template <int rows>
inline constexpr int kLaneSums = rows == 1 ? 1 : 4;

template <int rows>
__device__ __forceinline__ void add_codes(const std::uint8_t* weight, const std::uint8_t* x, int count,
                                          int (&dots)[kLaneSums<rows>]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  if (2 * warp >= count) return;  // blocks come in pairs
  const int first = 2 * warp * kGroups;
  const auto* codes = reinterpret_cast<const unsigned*>(weight) + first * kPanel;
  const auto* words = reinterpret_cast<const unsigned*>(x) + first;
  INGOT_UNROLL
  for (int group = 0; group < 2 * kGroups; group += rows == 1 ? 2 : 4) {
    const auto of = [&](int apart, int row) {
      return RowScaled::less_zero(codes[(group + apart) * kPanel + row]);
    };
    if constexpr (rows == 1) {
      const int apart = lane / kPanel;
      dots[0] =
          __dp4a(static_cast<int>(of(apart, lane % kPanel)), static_cast<int>(words[group + apart]), dots[0]);
    } else {
      const int g = lane / 4, t = lane % 4;
      multiply_add_int8(dots, of(t, g), of(t, g + 8), words[g * (kCodesPitch / 4) + group + t]);
    }
  }
}

/// Writes a warp's sums to parts[row of x][row of the panel].
template <int rows>
__device__ __forceinline__ void store_sums(int (*parts)[kPanel], const int (&dots)[kLaneSums<rows>]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (rows == 1) {
    const int dot = dots[0] + __shfl_xor_sync(kAllLanes, dots[0], kPanel);
    if (lane < kPanel) parts[0][lane] = dot;
  } else {
    INGOT_UNROLL
    for (int i = 0; i < 4; ++i) parts[lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = dots[i];
  }
}

template <int rows>
__global__ void __launch_bounds__(kRowScaledThreads)
    row_scaled_matmul_kernel(const __grid_constant__ PackedMatmulArgs args) {
  using Stage = RowScaledStages<rows>;
  constexpr int kWarps = kDotThreads / kWarp;
  INGOT_DYNAMIC_SHARED(std::uint8_t, shared);
  using Parts = int[kPanel];
  INGOT_SHARED_ARRAY(Parts, parts, kWarps * rows);
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel;
  const MatmulPosition position(args, rows);
  const Role role(position.rows);
  const std::uint8_t* panel = args.weight + position.panel * args.panel_bytes;
  const std::uint8_t* x = static_cast<const std::uint8_t*>(args.x) + position.row0 * args.x_stride;
  const auto blocks = static_cast<int>(args.count);
  const int stages = (blocks + kStageBlocks - 1) / kStageBlocks;
  PanelCopies<Stage::kWeight> weight(panel + RowScaled::kPanelHeader,
                                     args.panel_bytes - RowScaled::kPanelHeader, role.copier);
  RowCopies<rows, kStageBlocks * 32> codes(x + sizeof(ActivationRow), args.x_stride, position.rows,
                                           blocks * 32, role.copier);
  int dots[kLaneSums<rows>] = {};
  Stage::run(
      stages,
      [&](int stage) {
        if (!role.copies) return;
        weight.next(Stage::weight(shared, stage));
        codes.next(Stage::x(shared, stage));
      },
      [&](int stage) {
        if (role.multiplies && stage < stages)
          add_codes<rows>(Stage::weight(shared, stage), Stage::x(shared, stage),
                          blocks - stage * kStageBlocks, dots);
      });
  if (role.multiplies) store_sums<rows>(parts + me / kWarp * rows, dots);
  __syncthreads();
  const int r = me / kPanel;
  const std::int64_t column = position.panel * kPanel + row;
  if (r >= position.rows || column >= args.n) return;
  int dot = 0;
  for (int warp = 0; warp < kWarps; ++warp) dot += parts[warp * rows + r][row];
  const float x_scale = *reinterpret_cast<const float*>(x + r * args.x_stride);
  args.y[(position.row0 + r) * args.y_stride + column] =
      fmaf(static_cast<float>(dot), RowScaled::scale(panel, 0, 0, row) * x_scale,
           args.bias == nullptr ? 0.0F : args.bias[column]);
}

void run_quantized_matmul(const QuantizedMatmulArgs& args, Stream stream) {
  PackedMatmulArgs made = packed_matmul_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(args.format), args.weight);
  dispatch_rounded(args.format, [&]<PackedFormat format>() {
    dispatch_rows<1, kTileRows>(made.m, [&]<int rows>() {
      launch_matmul<QuantizedStages<format, rows>>({"quantized_matmul", stream, args.y},
                                                   quantized_matmul_kernel<format, rows>, made, rows,
                                                   kMatmulThreads<rows>, kStageBlocks);
    });
  });
}

void run_row_scaled_matmul(const RowScaledMatmulArgs& args, Stream stream) {
  PackedMatmulArgs made = packed_matmul_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(PackedFormat::w8a8), args.weight);
  dispatch_rows<1, kTileRows>(made.m, [&]<int rows>() {
    launch_matmul<RowScaledStages<rows>>({"row_scaled_matmul", stream, args.y},
                                         row_scaled_matmul_kernel<rows>, made, rows, kRowScaledThreads,
                                         kStageBlocks);
  });
}

}  // namespace

void register_quantized() {
  quantized_matmul.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                          [](const QuantizedMatmulArgs& args) {
                                            return !is_weight_only(args.format) &&
                                                   !is_row_scaled(args.format) && args.x.rank == 2;
                                          },
                                          run_quantized_matmul});
  row_scaled_matmul.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_row_scaled_matmul});
}

}  // namespace ingot::kernels::cuda
