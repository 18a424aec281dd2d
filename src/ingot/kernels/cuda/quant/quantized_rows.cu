#include "ingot/kernels/cuda/device/int8_rounding.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/quant/packed_codes.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cuda {
namespace {

// A warp for each block of 32 columns, a lane for each.
__global__ void quantize_activations_kernel(const float* x, std::int64_t x_stride, std::int64_t k,
                                            ActivationBlock* y, std::int64_t blocks, std::int64_t total) {
  using Warp = ThreadGroup<kWarp>;
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
         Size3{grid_of_rows<kWarp>(stream.device, total)}, Size3{ThreadGroup<kWarp>::kThreads}, 0,
         args.x.as<float>(), args.x.stride(0), args.x.dim(-1), args.y.as<ActivationBlock>(), blocks, total);
}

// A warp for each row.
__global__ void quantize_rows_kernel(const float* x, std::int64_t x_stride, std::int64_t k, std::uint8_t* y,
                                     std::int64_t y_stride, std::int64_t codes, std::int64_t rows) {
  using Warp = ThreadGroup<kWarp>;
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
         Size3{grid_of_rows<kWarp>(stream.device, rows)}, Size3{ThreadGroup<kWarp>::kThreads}, 0,
         args.x.as<float>(), args.x.stride(0), args.x.dim(-1), args.y.as<std::uint8_t>(), args.y.stride(0),
         args.y.dim(-1) - 64, rows);
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

/// Written at once.
template <class T>
struct alignas(4 * sizeof(T)) FourOf {
  T of[4];
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
    const auto inner = static_cast<int>(block % Format::kStepBlocks), row = static_cast<int>(id % kPanel);
    const auto position = static_cast<int>(column % kPackedBlock);
    const unsigned codes = Format::codes(from, inner, position / 4, row);
    const float scale = Format::whole_scale(panel, from, inner, position / 16, row),
                minimum = Format::minimum(from, inner, row);
    FourOf<T> values;
    INGOT_UNROLL
    for (int c = 0; c < 4; ++c) {
      const int code = static_cast<int>(codes >> (8 * c) & 255) - Format::kZero;
      float value = static_cast<float>(code);
      if constexpr (is_weight_only(format)) value = code_values.value(code);
      // Not fused: the bits of the CPU's.
      values.of[c] = from_float<T>(__fadd_rn(__fmul_rn(scale, value), minimum));
    }
    if (args.y_stride % 4 == 0) {  // then whole groups are aligned
      *reinterpret_cast<FourOf<T>*>(y) = values;
      continue;
    }
    for (int c = 0; c < there; ++c) y[c] = values.of[c];
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

void register_quantized_rows() {
  dequantize_rows.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_dequantize_rows});
  quantize_activations.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_quantize_activations});
  quantize_rows.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_quantize_rows});
}

}  // namespace ingot::kernels::cuda
