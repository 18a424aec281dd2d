#include "ingot/kernels/cuda/launch.h"
#include "ingot/kernels/cuda/panel_stream.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cuda {
namespace {

// Weights whose codes are multiplied as int8: 16 blocks of 32 columns in a stage, a thread for each of them
// and each row of the panel.
constexpr int kStageBlocks = kDotThreads / kPanel;

/// What a stage comes to.
template <class Format, int rows>
struct alignas(16) BlockDots {
  float dots[rows][kStageBlocks][kHalves<Format>][kPanel];
  float scales[kStageBlocks][kHalves<Format>][kPanel];
  float minimums[kHasMinimum<Format> ? kStageBlocks : 1][kPanel];
  Pack<float, 2> x[rows][kStageBlocks];  // its scale and scaled_sum
};

template <PackedFormat format, int rows>
struct QuantizedStages
    : Stages<kStageBlocks / Packed<format>::kStepBlocks * Packed<format>::kStep, rows * kStageBlocks * 64,
             2 * static_cast<int>(sizeof(BlockDots<Packed<format>, rows>))> {
  static constexpr int kWeight = kStageBlocks / Packed<format>::kStepBlocks * Packed<format>::kStep;
};

/// Σ codes · x over one half of a block (all of it where there is one scale), less the zero.
template <class Format>
__device__ __forceinline__ int block_dot(const unsigned (&codes)[8], int half, const int* x) {
  constexpr int kPacks = 2 / kHalves<Format>;
  int dot = 0;
  INGOT_UNROLL
  for (int pack = half * kPacks; pack < (half + 1) * kPacks; ++pack) {
    const Pack<int, 4> words = load_pack<4>(x + 4 * pack);
    INGOT_UNROLL
    for (int i = 0; i < 4; ++i) dot = __dp4a(static_cast<int>(codes[4 * pack + i]), words.values[i], dot);
  }
  if constexpr (Format::kLowBits == 8) return dot;
  // The members after the codes: scale, scaled_sum, negative_sum, negative_half_sums.
  return dot + Format::kZero * x[kHalves<Format> == 1 ? 10 : 11 + half];
}

/// One thread's part of a stage with `count` blocks, for `there` rows of x.
template <class Format, int rows>
__device__ __forceinline__ void find_dots(const std::uint8_t* weight, const std::uint8_t* x, int count,
                                          int there, BlockDots<Format, rows>& found) {
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel, mine = me / kPanel;
  // The halves of a warp take neighbouring steps: in most formats those begin in different halves of the
  // banks.
  const int number = mine / 2 / Format::kStepBlocks * 2 + mine % 2, block = mine / 2 % Format::kStepBlocks;
  const int at = number * Format::kStepBlocks + block;
  if (at >= count) return;
  const std::uint8_t* step = weight + number * Format::kStep;
  unsigned codes[8];
  INGOT_UNROLL
  for (int group = 0; group < 8; ++group) {
    codes[group] = Format::codes(step, block, group, row);
    if constexpr (Format::kLowBits == 8) codes[group] ^= 0x80808080U;  // less 128, as signed bytes
  }
  float scales[kHalves<Format>], minimum = 0;
  INGOT_UNROLL
  for (int half = 0; half < kHalves<Format>; ++half) scales[half] = Format::scale(step, block, half, row);
  if constexpr (kHasMinimum<Format>) minimum = Format::minimum(step, block, row);
  INGOT_UNROLL
  for (int r = 0; r < rows; ++r) {
    if (rows > 1 && r >= there) break;
    const int* words = reinterpret_cast<const int*>(x + (r * kStageBlocks + at) * 64);
    INGOT_UNROLL
    for (int half = 0; half < kHalves<Format>; ++half)
      found.dots[r][at][half][row] = static_cast<float>(block_dot<Format>(codes, half, words));
    if (row == 0) found.x[r][at] = load_pack<2>(reinterpret_cast<const float*>(words + 8));
  }
  INGOT_UNROLL
  for (int half = 0; half < kHalves<Format>; ++half) found.scales[at][half][row] = scales[half];
  if constexpr (kHasMinimum<Format>) found.minimums[at][row] = minimum;
}

/// y and what a stage adds to it, block after block.
template <class Format, int rows>
__device__ __forceinline__ float add_dots(const BlockDots<Format, rows>& found, int count, int r, int row,
                                          float y) {
  add_up<kStageBlocks>(count, [&](int i) {
    const Pack<float, 2> x = found.x[r][i];
    INGOT_UNROLL
    for (int half = 0; half < kHalves<Format>; ++half)
      y = fmaf(found.dots[r][i][half][row], found.scales[i][half][row] * x.values[0], y);
    if constexpr (kHasMinimum<Format>) y = fmaf(found.minimums[i][row], x.values[1], y);
  });
  return y;
}

template <PackedFormat format, int rows>
__global__ void __launch_bounds__(kProductThreads<rows>)
    quantized_matmul_kernel(const __grid_constant__ ProductArgs args) {
  using Format = Packed<format>;
  using Stage = QuantizedStages<format, rows>;
  INGOT_DYNAMIC_SHARED(std::uint8_t, shared);
  auto* found = reinterpret_cast<BlockDots<Format, rows>*>(shared);
  const ProductPlace place(args, rows);
  const Role role(place.rows);
  const auto blocks = static_cast<int>(args.count);
  const int stages = (blocks + kStageBlocks - 1) / kStageBlocks;
  PanelCopies<Stage::kWeight> weight(args.weight + place.panel * args.panel_bytes, args.panel_bytes,
                                     role.copier);
  RowCopies<rows, kStageBlocks * 64> x(static_cast<const std::uint8_t*>(args.x) + place.row0 * args.x_stride,
                                       args.x_stride, place.rows, blocks * 64, role.copier);
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
                    place.rows, found[stage % 2]);
        if (role.adds && stage > 0)
          y = add_dots(found[(stage - 1) % 2], blocks - (stage - 1) * kStageBlocks, role.r, role.row, y);
      });
  if (role.adds) store_product(args, place.row0 + role.r, place.panel * kPanel + role.row, y);
}

// Of rows with one scale each: whole numbers may be summed in any order, so each thread keeps its own sums to
// the end. The lanes of a warp read 128 bytes of codes, two groups of four columns.
using RowScaled = Packed<PackedFormat::w8a8>;
constexpr int kGroups = 8;  // of a block of 32 columns
constexpr int kRowScaledThreads = kDotThreads + kCopyThreads;
template <int rows>
struct RowScaledStages : Stages<kStageBlocks * RowScaled::kLowBlock, rows * kStageBlocks * 32, 0> {
  static constexpr int kWeight = kStageBlocks * RowScaled::kLowBlock;
};

template <int rows>
__device__ __forceinline__ void add_codes(const std::uint8_t* weight, const std::uint8_t* x, int count,
                                          int there, int (&dots)[rows]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  if (2 * warp >= count) return;  // blocks come in pairs
  const int first = 2 * warp * kGroups;
  const auto* from = reinterpret_cast<const unsigned*>(weight) + first * kPanel + lane;
  unsigned codes[kGroups];
  INGOT_UNROLL
  for (int i = 0; i < kGroups; ++i) codes[i] = from[i * kWarp] ^ 0x80808080U;  // less 128, as signed bytes
  INGOT_UNROLL
  for (int r = 0; r < rows; ++r) {
    if (rows > 1 && r >= there) break;
    const int* words = reinterpret_cast<const int*>(x + r * kStageBlocks * 32) + first + lane / kPanel;
    INGOT_UNROLL
    for (int i = 0; i < kGroups; ++i) dots[r] = __dp4a(static_cast<int>(codes[i]), words[2 * i], dots[r]);
  }
}

template <int rows>
__global__ void __launch_bounds__(kRowScaledThreads)
    row_scaled_matmul_kernel(const __grid_constant__ ProductArgs args) {
  using Stage = RowScaledStages<rows>;
  constexpr int kWarps = kDotThreads / kWarp;
  INGOT_DYNAMIC_SHARED(std::uint8_t, shared);
  INGOT_SHARED_ARRAY(int, parts, kWarps* rows* kPanel);
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel, lane = me % kWarp;
  const ProductPlace place(args, rows);
  const Role role(place.rows);
  const std::uint8_t* panel = args.weight + place.panel * args.panel_bytes;
  const std::uint8_t* x = static_cast<const std::uint8_t*>(args.x) + place.row0 * args.x_stride;
  const auto blocks = static_cast<int>(args.count);
  const int stages = (blocks + kStageBlocks - 1) / kStageBlocks;
  PanelCopies<Stage::kWeight> weight(panel + RowScaled::kPanelHeader,
                                     args.panel_bytes - RowScaled::kPanelHeader, role.copier);
  RowCopies<rows, kStageBlocks * 32> codes(x + sizeof(ActivationRow), args.x_stride, place.rows, blocks * 32,
                                           role.copier);
  int dots[rows] = {};
  Stage::run(
      stages,
      [&](int stage) {
        if (!role.copies) return;
        weight.next(Stage::weight(shared, stage));
        codes.next(Stage::x(shared, stage));
      },
      [&](int stage) {
        if (role.multiplies && stage < stages)
          add_codes(Stage::weight(shared, stage), Stage::x(shared, stage), blocks - stage * kStageBlocks,
                    place.rows, dots);
      });
  INGOT_UNROLL
  for (int r = 0; r < rows; ++r) {
    const int dot = dots[r] + __shfl_xor_sync(kAllLanes, dots[r], kPanel);
    if (role.multiplies && lane < kPanel) parts[(me / kWarp * rows + r) * kPanel + row] = dot;
  }
  __syncthreads();
  const int r = me / kPanel;
  const std::int64_t column = place.panel * kPanel + row;
  if (r >= place.rows || column >= args.n) return;
  int dot = 0;
  for (int warp = 0; warp < kWarps; ++warp) dot += parts[(warp * rows + r) * kPanel + row];
  const float x_scale = *reinterpret_cast<const float*>(x + r * args.x_stride);
  args.y[(place.row0 + r) * args.y_stride + column] =
      fmaf(static_cast<float>(dot), RowScaled::scale(panel, 0, 0, row) * x_scale,
           args.bias == nullptr ? 0.0F : args.bias[column]);
}

void run_quantized_matmul(const QuantizedMatmulArgs& args, Stream stream) {
  ProductArgs made = product_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(args.format), args.weight);
  dispatch_rounded(args.format, [&]<PackedFormat format>() {
    dispatch_rows(made.m, [&]<int rows>() {
      launch_product<QuantizedStages<format, rows>>({"quantized_matmul", stream, args.y},
                                                    quantized_matmul_kernel<format, rows>, made, rows,
                                                    kProductThreads<rows>, kStageBlocks);
    });
  });
}

void run_row_scaled_matmul(const RowScaledMatmulArgs& args, Stream stream) {
  ProductArgs made = product_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(PackedFormat::w8a8), args.weight);
  dispatch_rows(made.m, [&]<int rows>() {
    launch_product<RowScaledStages<rows>>({"row_scaled_matmul", stream, args.y},
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
