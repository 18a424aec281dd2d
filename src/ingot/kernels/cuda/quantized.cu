#include <algorithm>

#include "ingot/kernels/cuda/int8_rounding.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/quantized.h"
#include "ingot/kernels/weight_only.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kPanel = static_cast<int>(kPanelRows);

/// A format's layout (kernels/packed.h) as the numbers that device code can use.
template <PackedFormat format>
struct Packed {
  static constexpr PackedScales kScales = packed_layout(format).scales;
  static constexpr int kLowBits = packed_layout(format).low_bits;
  static constexpr int kHighBits = packed_layout(format).high_bits;
  static constexpr int kStepBlocks = packed_layout(format).step_blocks;
  static constexpr int kZero =
      packed_layout(format).zero_shift < 0 ? 0 : 1 << packed_layout(format).zero_shift;
  static constexpr int kHeader = static_cast<int>(packed_layout(format).header_bytes());
  static constexpr int kLowBlock = static_cast<int>(packed_layout(format).low_block_bytes());
  static constexpr int kHighBlock = static_cast<int>(packed_layout(format).high_block_bytes());
  static constexpr int kStep = static_cast<int>(packed_layout(format).step_bytes());
  static constexpr int kPanelHeader = static_cast<int>(packed_layout(format).panel_header_bytes());

  /// The codes of columns 4 · group ... of a row in block `block` of a step, a byte each.
  __device__ static unsigned codes(const std::uint8_t* step, int block, int group, int row) {
    const auto word = [row](const std::uint8_t* vector) {
      return reinterpret_cast<const unsigned*>(vector)[row];
    };
    const std::uint8_t* low = step + kHeader + block * kLowBlock;
    unsigned result = 0;
    if constexpr (kLowBits == 8) result = word(low + group * 64);
    if constexpr (kLowBits == 4) result = word(low + group % 4 * 64) >> (4 * (group / 4)) & 0x0f0f0f0fU;
    if constexpr (kLowBits == 2) result = word(low + group % 2 * 64) >> (2 * (group / 2)) & 0x03030303U;
    const std::uint8_t* high = step + kHeader + kStepBlocks * kLowBlock + block * kHighBlock;
    if constexpr (kHighBits == 1) result |= (word(high) >> group & 0x01010101U) << kLowBits;
    if constexpr (kHighBits == 2)
      result |= (word(high + group / 4 * 64) >> (2 * (group % 4)) & 0x03030303U) << kLowBits;
    return result;
  }

  __device__ static float half_at(const std::uint8_t* step, int index) {
    return to_float(reinterpret_cast<const half_t*>(step)[index]);
  }
  /// The scale of one half of a block's columns, and what is added to every value.
  __device__ static float scale(const std::uint8_t* step, int block, int half, int row) {
    if constexpr (kScales == PackedScales::flat) return half_at(step, block * 16 + row);
    if constexpr (kScales == PackedScales::flat_min) return half_at(step, block * 32 + row);
    if constexpr (kScales == PackedScales::super_min)
      return half_at(step, row) * static_cast<float>(step[64 + block * 16 + row]);
    if constexpr (kScales == PackedScales::super_halves)
      return half_at(step, row) *
             static_cast<float>(static_cast<std::int8_t>(step[64 + (2 * block + half) * 16 + row]));
    if constexpr (kScales == PackedScales::values || kScales == PackedScales::row)
      return reinterpret_cast<const float*>(step)[row];
    return half_at(step, row);
  }
  __device__ static float minimum(const std::uint8_t* step, int block, int row) {
    if constexpr (kScales == PackedScales::flat_min) return half_at(step, block * 32 + 16 + row);
    if constexpr (kScales == PackedScales::super_min)
      return -(half_at(step, 16 + row) * static_cast<float>(step[64 + (kStepBlocks + block) * 16 + row]));
    if constexpr (kScales == PackedScales::group_zero)
      return -(half_at(step, row) * static_cast<float>(step[32 + row]));
    return 0.0F;
  }
};

/// How many scales a block has, and whether something is added to its values. Not members: nvcc warns of
/// those that a format does not use.
template <class Format>
inline constexpr int kHalves = Format::kScales == PackedScales::super_halves ? 2 : 1;
template <class Format>
inline constexpr bool kHasMinimum = Format::kZero == 0;
/// How many codes a weight-only format has.
template <PackedFormat format>
inline constexpr int kCodes = format == PackedFormat::nf4 ? 16 : 256;

template <PackedFormat... formats, class F>
void dispatch_listed(PackedFormat format, F& f) {
  ((format == formats ? f.template operator()<formats>() : void()), ...);
}
template <class F>
void dispatch_rounded(PackedFormat format, F&& f) {
  using enum PackedFormat;
  dispatch_listed<q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, q4_g32, q4_g64, q4_g128, q2_g256>(format,
                                                                                                    f);
}
template <class F>
void dispatch_weight_only(PackedFormat format, F&& f) {
  dispatch_listed<PackedFormat::nf4, PackedFormat::fp8>(format, f);
}
template <class F>
void dispatch_row_scaled(PackedFormat format, F&& f) {
  dispatch_listed<PackedFormat::w8a8>(format, f);
}

/// What the codes of a weight-only format stand for.
template <PackedFormat format>
struct CodeValues {
  float nf4[16];

  CodeValues() { std::copy(kNf4Values.begin(), kNf4Values.end(), nf4); }

  __device__ float value(int code) const {
    if constexpr (format == PackedFormat::nf4) return nf4[code];
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) return NAN;
    const float size = exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9)
                                     : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
    return (code & 128) != 0 ? -size : size;
  }
  /// Writes all values into shared memory; every thread of a block calls it.
  __device__ void fill(float* table) const {
    for (int code = static_cast<int>(threadIdx.x); code < kCodes<format>;
         code += static_cast<int>(blockDim.x))
      table[code] = value(code);
    __syncthreads();
  }
};

// A warp for each block of 32 columns, a lane for each.
__global__ void quantize_activations_kernel(const float* x, std::int64_t x_stride, std::int64_t k,
                                            ActivationBlock* y, std::int64_t blocks, std::int64_t total) {
  using Warp = Team<kWarp>;
  for (std::int64_t i = Warp::first_row(); i < total; i += Warp::row_step()) {
    const std::int64_t row = i / blocks, column = (i - row * blocks) * 32 + Warp::lane();
    const float value = column < k ? x[row * x_stride + column] : 0.0F;
    const bool finite = __all_sync(kAllLanes, fabsf(value) < INFINITY ? 1 : 0) != 0;  // a NaN is not less
    const Int8Rounding rounding(Warp::max(fabsf(value)), finite);
    const int code = rounding.code(value);
    const int sum = warp_sum(code), low_half = warp_sum(Warp::lane() < 16 ? code : 0);
    y[i].codes[static_cast<std::size_t>(Warp::lane())] = static_cast<std::int8_t>(code);
    if (Warp::lane() != 0) continue;
    y[i].scale = rounding.scale;
    y[i].scaled_sum = rounding.scale * static_cast<float>(sum);
    y[i].negative_sum = -sum;
    y[i].negative_half_sums[0] = -low_half;
    y[i].negative_half_sums[1] = low_half - sum;
    for (std::size_t j = 0; j < 3; ++j) y[i].unused[j] = 0;
  }
}

void run_quantize_activations(const QuantizeActivationsArgs& args, Stream stream) {
  const std::int64_t blocks = args.y.dim(-1) / 64, total = args.x.dim(0) * blocks;
  if (total == 0) return;
  launch({"quantize_activations", stream, args.x}, quantize_activations_kernel,
         Size3{grid_of_rows<kWarp>(stream.device, total)}, Size3{Team<kWarp>::kThreads}, 0,
         args.x.as<float>(), args.x.stride(0), args.x.dim(-1), args.y.as<ActivationBlock>(), blocks, total);
}

// A warp for each row.
__global__ void quantize_rows_kernel(const float* x, std::int64_t x_stride, std::int64_t k, std::uint8_t* y,
                                     std::int64_t y_stride, std::int64_t codes, std::int64_t rows) {
  using Warp = Team<kWarp>;
  for (std::int64_t row = Warp::first_row(); row < rows; row += Warp::row_step()) {
    const float* from = x + row * x_stride;
    const Int8Rounding rounding = Int8Rounding::of_row(from, k);
    std::uint8_t* to = y + row * y_stride;
    int sum = 0;
    for (std::int64_t i = Warp::lane(); i < codes; i += kWarp) {
      const int code = i < k ? rounding.code(from[i]) : 0;
      to[64 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(code));
      sum += code;
    }
    sum = warp_sum(sum);
    int* words = reinterpret_cast<int*>(to);
    if (Warp::lane() < 16 && Warp::lane() > 1) words[Warp::lane()] = 0;
    if (Warp::lane() != 0) continue;
    *reinterpret_cast<float*>(to) = rounding.scale;
    words[1] = -sum;
  }
}

void run_quantize_rows(const QuantizeRowsArgs& args, Stream stream) {
  const std::int64_t rows = args.x.dim(0);
  if (rows == 0) return;
  launch({"quantize_rows", stream, args.x}, quantize_rows_kernel,
         Size3{grid_of_rows<kWarp>(stream.device, rows)}, Size3{Team<kWarp>::kThreads}, 0, args.x.as<float>(),
         args.x.stride(0), args.x.dim(-1), args.y.as<std::uint8_t>(), args.y.stride(0), args.y.dim(-1) - 64,
         rows);
}

// Products: a block computes the 16 columns of y that belong to a panel, for kRows rows of x. Its threads
// first compute the sums of kAtOnce blocks (or steps) in parallel; then one thread per result adds them up in
// the order that the contract fixes, so that the bits are those of the CPU.
constexpr int kAtOnce = 16, kRows = 4;
constexpr int kProductThreads = kPanel * kAtOnce;
static_assert(kPanel * kRows <= kProductThreads);

struct ProductArgs {
  const void* x;
  const std::uint8_t* weight;
  const float* bias;
  float* y;
  std::int64_t m, n, k, x_stride, y_stride, panel_bytes;
  std::int64_t count;  // of blocks, or steps, in a panel

  constexpr std::int64_t panels() const { return (n + kPanel - 1) / kPanel; }
};

/// The panel and the first of `rows` rows of x that a block works on. All are in the grid's x, since y ends
/// at 65535.
struct ProductPlace {
  std::int64_t panel, row0;

  __device__ __forceinline__ ProductPlace(const ProductArgs& args, int rows) {
    const auto panels = static_cast<unsigned>(args.panels()), group = blockIdx.x / panels;
    panel = blockIdx.x - group * panels;
    row0 = std::int64_t{group} * rows;
  }
};
Size3 product_grid(const ProductArgs& args, int rows = kRows) {
  return {static_cast<unsigned>(args.panels() * ((args.m + rows - 1) / rows))};
}

/// Σ codes · x over one half of a block (all of it where there is one scale), less the zero.
template <class Format>
__device__ int block_dot(const std::uint8_t* step, int block, int half, int row, const ActivationBlock& x) {
  constexpr int kGroups = 8 / kHalves<Format>;
  const int* words = reinterpret_cast<const int*>(&x);
  int dot = 0;
  INGOT_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    const int group = half * kGroups + g;
    unsigned codes = Format::codes(step, block, group, row);
    if constexpr (Format::kLowBits == 8) codes ^= 0x80808080U;  // less 128, as signed bytes
    dot = __dp4a(static_cast<int>(codes), words[group], dot);
  }
  if constexpr (Format::kLowBits == 8) return dot;
  // The members after the codes: scale, scaled_sum, negative_sum, negative_half_sums.
  return dot + Format::kZero * words[kHalves<Format> == 1 ? 10 : 11 + half];
}

template <PackedFormat format>
__global__ void __launch_bounds__(kProductThreads)
    quantized_matmul_kernel(const __grid_constant__ ProductArgs args) {
  using Format = Packed<format>;
  constexpr int kCells = kAtOnce * kHalves<Format> * kPanel;
  INGOT_SHARED_ARRAY(float, dots, kRows* kCells);
  INGOT_SHARED_ARRAY(float, scales, kRows* kCells);
  INGOT_SHARED_ARRAY(float, minimums, kAtOnce* kPanel);
  INGOT_SHARED_ARRAY(float, x_sums, kRows* kAtOnce);
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel, mine = me / kPanel;
  const ProductPlace place(args, kRows);
  const std::uint8_t* panel = args.weight + place.panel * args.panel_bytes;
  const auto* x = static_cast<const ActivationBlock*>(args.x);
  const std::int64_t row0 = place.row0;
  float y = 0;  // of thread me < kPanel · kRows: column `row`, row row0 + mine
  for (std::int64_t begin = 0; begin < args.count; begin += kAtOnce) {
    const std::int64_t at = begin + mine;
    if (at < args.count) {
      const std::uint8_t* step = panel + at / Format::kStepBlocks * Format::kStep;
      const int block = static_cast<int>(at % Format::kStepBlocks);
      if constexpr (kHasMinimum<Format>) minimums[mine * kPanel + row] = Format::minimum(step, block, row);
      for (int r = 0; r < kRows && row0 + r < args.m; ++r) {
        const ActivationBlock& operand = x[(row0 + r) * args.x_stride + at];
        if (row == 0) x_sums[r * kAtOnce + mine] = operand.scaled_sum;
        for (int half = 0; half < kHalves<Format>; ++half) {
          const int cell = r * kCells + (mine * kHalves<Format> + half) * kPanel + row;
          dots[cell] = static_cast<float>(block_dot<Format>(step, block, half, row, operand));
          scales[cell] = Format::scale(step, block, half, row) * operand.scale;
        }
      }
    }
    __syncthreads();
    if (mine < kRows && row0 + mine < args.m) {
      const auto there = static_cast<int>(args.count - begin < kAtOnce ? args.count - begin : kAtOnce);
      for (int i = 0; i < there; ++i) {
        for (int half = 0; half < kHalves<Format>; ++half) {
          const int cell = mine * kCells + (i * kHalves<Format> + half) * kPanel + row;
          y = fmaf(dots[cell], scales[cell], y);
        }
        if constexpr (kHasMinimum<Format>)
          y = fmaf(minimums[i * kPanel + row], x_sums[mine * kAtOnce + i], y);
      }
    }
    __syncthreads();
  }
  const std::int64_t column = place.panel * kPanel + row;
  if (mine >= kRows || row0 + mine >= args.m || column >= args.n) return;
  args.y[(row0 + mine) * args.y_stride + column] = args.bias == nullptr ? y : y + args.bias[column];
}

/// The sums of even and odd columns of a step, added.
template <PackedFormat format>
__device__ float step_sum(const std::uint8_t* step, int row, const float* x, std::int64_t columns,
                          const float* values) {
  using Format = Packed<format>;
  float sums[2] = {};
  for (int group = 0; group < 8 * Format::kStepBlocks; ++group) {
    const unsigned codes = Format::codes(step, group / 8, group % 8, row);
    INGOT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::int64_t column = group * 4 + i;
      if (column < columns) sums[i % 2] = fmaf(x[column], values[codes >> (8 * i) & 255], sums[i % 2]);
    }
  }
  return sums[0] + sums[1];
}

template <PackedFormat format>
__global__ void __launch_bounds__(kProductThreads)
    weight_only_matmul_kernel(const __grid_constant__ ProductArgs args,
                              const __grid_constant__ CodeValues<format> code_values) {
  using Format = Packed<format>;
  INGOT_SHARED_ARRAY(float, values, kCodes<format>);
  INGOT_SHARED_ARRAY(float, sums, kRows* kAtOnce* kPanel);
  INGOT_SHARED_ARRAY(float, scales, kAtOnce* kPanel);
  code_values.fill(values);
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel, mine = me / kPanel;
  const ProductPlace place(args, kRows);
  const std::uint8_t* panel = args.weight + place.panel * args.panel_bytes;
  const auto* x = static_cast<const float*>(args.x);
  const std::int64_t row0 = place.row0;
  constexpr std::int64_t kColumns = Format::kStepBlocks * kPackedBlock;
  float y = 0;
  for (std::int64_t begin = 0; begin < args.count; begin += kAtOnce) {
    const std::int64_t at = begin + mine;
    if (at < args.count) {
      const std::uint8_t* step = panel + at * Format::kStep;
      scales[mine * kPanel + row] = Format::scale(step, 0, 0, row);
      for (int r = 0; r < kRows && row0 + r < args.m; ++r)
        sums[(r * kAtOnce + mine) * kPanel + row] = step_sum<format>(
            step, row, x + (row0 + r) * args.x_stride + at * kColumns, args.k - at * kColumns, values);
    }
    __syncthreads();
    if (mine < kRows && row0 + mine < args.m) {
      const auto there = static_cast<int>(args.count - begin < kAtOnce ? args.count - begin : kAtOnce);
      for (int i = 0; i < there; ++i)
        y = fmaf(sums[(mine * kAtOnce + i) * kPanel + row], scales[i * kPanel + row], y);
    }
    __syncthreads();
  }
  const std::int64_t column = place.panel * kPanel + row;
  if (mine >= kRows || row0 + mine >= args.m || column >= args.n) return;
  args.y[(row0 + mine) * args.y_stride + column] = args.bias == nullptr ? y : y + args.bias[column];
}

// Of f32: a thread for each result adds the products up, column after column; the sixteen of a panel read one
// line.
constexpr int kPlainRows = 8;
__global__ void __launch_bounds__(kPanel* kPlainRows)
    plain_matmul_kernel(const __grid_constant__ ProductArgs args) {
  const int me = static_cast<int>(threadIdx.x), lane = me % kPanel;
  const ProductPlace place(args, kPlainRows);
  const std::int64_t row = place.row0 + me / kPanel, column = place.panel * kPanel + lane;
  if (row >= args.m || column >= args.n) return;
  const auto* weight = reinterpret_cast<const float*>(args.weight + place.panel * args.panel_bytes) + lane;
  const float* x = static_cast<const float*>(args.x) + row * args.x_stride;
  float y = 0;
  for (std::int64_t i = 0; i < args.k; ++i) y = fmaf(x[i], weight[i * kPanel], y);
  args.y[row * args.y_stride + column] = args.bias == nullptr ? y : y + args.bias[column];
}

// Of rows with one scale each: likewise, four columns at a time.
__global__ void __launch_bounds__(kPanel* kPlainRows)
    row_scaled_matmul_kernel(const __grid_constant__ ProductArgs args) {
  using Format = Packed<PackedFormat::w8a8>;
  const int me = static_cast<int>(threadIdx.x), lane = me % kPanel;
  const ProductPlace place(args, kPlainRows);
  const std::int64_t row = place.row0 + me / kPanel, column = place.panel * kPanel + lane;
  if (row >= args.m || column >= args.n) return;
  const std::uint8_t* panel = args.weight + place.panel * args.panel_bytes;
  const auto* x = static_cast<const std::uint8_t*>(args.x) + row * args.x_stride;
  const int* words = reinterpret_cast<const int*>(x + 64);
  int dot = 0;
  for (std::int64_t group = 0; group < args.count * 8; ++group) {
    const unsigned codes = Format::codes(panel + Format::kPanelHeader, 0, static_cast<int>(group), lane);
    dot = __dp4a(static_cast<int>(codes ^ 0x80808080U), words[group], dot);
  }
  const float scale = Format::scale(panel, 0, 0, lane) * *reinterpret_cast<const float*>(x);
  args.y[row * args.y_stride + column] =
      fmaf(static_cast<float>(dot), scale, args.bias == nullptr ? 0.0F : args.bias[column]);
}

template <class Args>
ProductArgs product_args(const Args& args) {
  return {.x = args.x.data,
          .weight = args.weight.template as<std::uint8_t>(),
          .bias = args.bias.template as<float>(),
          .y = args.y.template as<float>(),
          .m = args.y.dim(0),
          .n = args.y.dim(-1),
          .k = args.x.dim(-1),
          .x_stride = args.x.stride(0),
          .y_stride = args.y.stride(0),
          .panel_bytes = args.weight.dim(-1),
          .count = 0};
}

void run_quantized_matmul(const QuantizedMatmulArgs& args, Stream stream) {
  ProductArgs made = product_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(args.format), args.weight);
  made.x_stride = args.x.dim(-1) / 64;
  dispatch_rounded(args.format, [&]<PackedFormat format>() {
    launch({"quantized_matmul", stream, args.y}, quantized_matmul_kernel<format>, product_grid(made),
           Size3{kProductThreads}, 0, made);
  });
}

void run_row_scaled_matmul(const RowScaledMatmulArgs& args, Stream stream) {
  ProductArgs made = product_args(args);
  if (made.m * made.n == 0) return;
  made.count = packed_blocks(packed_layout(PackedFormat::w8a8), args.weight);
  launch({"row_scaled_matmul", stream, args.y}, row_scaled_matmul_kernel, product_grid(made, kPlainRows),
         Size3{kPanel * kPlainRows}, 0, made);
}

void run_weight_only_matmul(const WeightOnlyMatmulArgs& args, Stream stream) {
  ProductArgs made = product_args(args);
  if (made.m * made.n == 0) return;
  if (args.format == PackedFormat::f32) {
    return launch({"weight_only_matmul", stream, args.y}, plain_matmul_kernel, product_grid(made, kPlainRows),
                  Size3{kPanel * kPlainRows}, 0, made);
  }
  made.count = packed_layout(args.format).steps(made.k);
  dispatch_weight_only(args.format, [&]<PackedFormat format>() {
    launch({"weight_only_matmul", stream, args.y}, weight_only_matmul_kernel<format>, product_grid(made),
           Size3{kProductThreads}, 0, made, CodeValues<format>());
  });
}

/// What dequantize_rows is given. Without ids all rows are wanted.
struct RowsArgs {
  const std::uint8_t* weight;
  const std::int64_t* ids;
  void* y;
  std::int64_t panel_bytes, panels, rows, columns, y_stride;

  /// The row of the weight that row `at` of y is; -1 for an id outside.
  __device__ std::int64_t row_of(std::int64_t at) const {
    if (ids == nullptr) return at;
    const std::int64_t id = ids[at];
    return id >= 0 && id < panels * kPanel ? id : -1;
  }
};

// A thread for four columns of a row, whose codes are one word.
template <PackedFormat format, class T>
__global__ void dequantize_rows_kernel(const __grid_constant__ RowsArgs args,
                                       const __grid_constant__ CodeValues<format> code_values) {
  using Format = Packed<format>;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, groups = (args.columns + 3) / 4;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.rows * groups;
       i += step) {
    const std::int64_t at = i / groups, column = (i - at * groups) * 4, id = args.row_of(at);
    T* y = static_cast<T*>(args.y) + at * args.y_stride + column;
    const auto there = static_cast<int>(args.columns - column < 4 ? args.columns - column : 4);
    if (id < 0) {
      for (int c = 0; c < there; ++c) y[c] = from_float<T>(NAN);
      continue;
    }
    const std::int64_t block = column / kPackedBlock;
    const std::uint8_t* panel = args.weight + id / kPanel * args.panel_bytes;
    const std::uint8_t* from = panel + Format::kPanelHeader + block / Format::kStepBlocks * Format::kStep;
    const std::uint8_t* header = Format::kPanelHeader == 0 ? from : panel;
    const auto inner = static_cast<int>(block % Format::kStepBlocks), row = static_cast<int>(id % kPanel);
    const auto place = static_cast<int>(column % kPackedBlock);
    const unsigned codes = Format::codes(from, inner, place / 4, row);
    const float scale = Format::scale(header, inner, place / 16, row),
                minimum = Format::minimum(header, inner, row);
    for (int c = 0; c < there; ++c) {
      const int code = static_cast<int>(codes >> (8 * c) & 255) - Format::kZero;
      float value = static_cast<float>(code);
      if constexpr (is_weight_only(format)) value = code_values.value(code);
      y[c] = from_float<T>(__fadd_rn(__fmul_rn(scale, value), minimum));  // not fused: the bits of the CPU's
    }
  }
}

template <class T>
__global__ void plain_rows_kernel(const __grid_constant__ RowsArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.rows * args.columns;
       i += step) {
    const std::int64_t at = i / args.columns, column = i - at * args.columns, id = args.row_of(at);
    const auto* panel = reinterpret_cast<const float*>(args.weight + id / kPanel * args.panel_bytes);
    static_cast<T*>(args.y)[at * args.y_stride + column] =
        from_float<T>(id < 0 ? NAN : panel[column * kPanel + id % kPanel]);
  }
}

template <class T>
void run_dequantize_rows_to(const DequantizeRowsArgs& args, Stream stream) {
  const RowsArgs made{.weight = args.weight.as<std::uint8_t>(),
                      .ids = args.ids ? args.ids.as<std::int64_t>() : nullptr,
                      .y = args.y.data,
                      .panel_bytes = args.weight.dim(-1),
                      .panels = args.weight.dim(0),
                      .rows = args.y.dim(0),
                      .columns = args.y.dim(-1),
                      .y_stride = args.y.stride(0)};
  if (made.rows * made.columns == 0) return;
  constexpr unsigned kThreads = 256;
  const auto grid = [&](std::int64_t count) { return Size3{grid_for(stream.device, count, kThreads)}; };
  const LaunchSite site{"dequantize_rows", stream, args.y};
  if (args.format == PackedFormat::f32)
    return launch(site, plain_rows_kernel<T>, grid(made.rows * made.columns), Size3{kThreads}, 0, made);
  const auto run = [&]<PackedFormat format>() {
    launch(site, dequantize_rows_kernel<format, T>, grid(made.rows * ((made.columns + 3) / 4)),
           Size3{kThreads}, 0, made, CodeValues<format>());
  };
  dispatch_rounded(args.format, run);
  dispatch_weight_only(args.format, run);
  dispatch_row_scaled(args.format, run);
}

void run_dequantize_rows(const DequantizeRowsArgs& args, Stream stream) {
  if (args.y.dtype == DType::bf16) return run_dequantize_rows_to<bfloat_t>(args, stream);
  run_dequantize_rows_to<float>(args, stream);
}

}  // namespace

void register_quantized() {
  dequantize_rows.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_dequantize_rows});
  quantize_activations.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_quantize_activations});
  // Whole rows: packed weights are multiplied on the CPU, which alone takes spans of them (quant/linear.h).
  quantize_rows.add(DeviceType::cuda,
                    {"cuda", ImplKind::cuda, [](const QuantizeRowsArgs& args) { return args.y.rank == 2; },
                     run_quantize_rows});
  quantized_matmul.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                          [](const QuantizedMatmulArgs& args) {
                                            return !is_weight_only(args.format) &&
                                                   !is_row_scaled(args.format) && args.x.rank == 2;
                                          },
                                          run_quantized_matmul});
  row_scaled_matmul.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_row_scaled_matmul});
  weight_only_matmul.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const WeightOnlyMatmulArgs& args) { return is_weight_only(args.format); },
       run_weight_only_matmul});
}

}  // namespace ingot::kernels::cuda
