#include "ingot/kernels/cuda/quant/panel_stream.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/weight_only.h"

namespace ingot::kernels::cuda {
namespace {

// Weights whose codes stand for numbers of a table: 8 steps of 64 columns in a stage, a warp for each, of
// which one half sums up the even columns and the other the odd ones, a lane for each row of the panel.
constexpr int kStageSteps = kDotThreads / kWarp, kStepColumns = 64;
// x, in shared memory: the even columns of a step and then the odd ones, from other banks.
constexpr int kOddColumns = kStepColumns / 2 + 4, kStepFloats = 2 * kOddColumns;
constexpr int kStageFloats = kStageSteps * kStepFloats;

/// Groups of columns of a step that have a scale each.
template <PackedFormat format>
inline constexpr int kStepScales = static_cast<int>(kStepColumns / scale_columns(format));

/// What a stage comes to: even + odd, for each scale.
template <int rows, int scales_of_step>
struct alignas(16) StepSums {
  static constexpr int kScales = scales_of_step, kCount = kStageSteps * scales_of_step;
  float sums[rows][kCount][kPanel];
  float scales[kCount][kPanel];
};

template <PackedFormat format, int rows>
struct WeightOnlyStages : Stages<kStageSteps * Packed<format>::kStep, rows * kStageFloats * 4,
                                 2 * static_cast<int>(sizeof(StepSums<rows, kStepScales<format>>))> {
  static constexpr int kWeight = kStageSteps * Packed<format>::kStep;
};

/// Adds to sums[s][r] the products of the even (odd) columns of a step that share scale s, `columns` of the
/// step's are there if not all.
template <PackedFormat format, bool all, int rows>
__device__ __forceinline__ void add_step(const std::uint8_t* step, int row, int odd, const float* x,
                                         int there, int columns, const float* table,
                                         float (&sums)[kStepScales<format>][rows]) {
  constexpr int kGroups = kStepColumns / 4;
  INGOT_UNROLL
  for (int group = 0; group < kGroups; group += 2) {
    Vector<float, 2> values[2];
    INGOT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int g = group + i;
      values[i] = code_pair<format>(Packed<format>::codes(step, g / 8, g % 8, row) >> (8 * odd), table);
    }
    INGOT_UNROLL
    for (int r = 0; r < rows; ++r) {
      if (rows > 1 && r >= there) break;
      const Vector<float, 4> some = load_vector<4>(x + r * kStageFloats + group * 2);
      float& sum = sums[group * kStepScales<format> / kGroups][r];
      INGOT_UNROLL
      for (int i = 0; i < 4; ++i)
        if (all || group * 4 + 2 * i + odd < columns)
          sum = fmaf(some.values[i], values[i / 2].values[i % 2], sum);
    }
  }
}

/// One thread's part of a stage with `columns` columns.
template <PackedFormat format, int rows>
__device__ __forceinline__ void find_sums(const std::uint8_t* panel, const std::uint8_t* weight,
                                          const std::uint8_t* x, int columns, int there, const float* table,
                                          StepSums<rows, kStepScales<format>>& found) {
  constexpr int kScales = kStepScales<format>;
  const int me = static_cast<int>(threadIdx.x), row = me % kPanel, odd = me / kPanel % 2, at = me / kWarp;
  const int left = columns - at * kStepColumns;
  if (left <= 0) return;
  const std::uint8_t* step = weight + at * Packed<format>::kStep;
  const float* from = reinterpret_cast<const float*>(x) + at * kStepFloats + odd * kOddColumns;
  float sums[kScales][rows] = {};
  if (left >= kStepColumns)
    add_step<format, true>(step, row, odd, from, there, left, table, sums);
  else
    add_step<format, false>(step, row, odd, from, there, left, table, sums);
  INGOT_UNROLL
  for (int s = 0; s < kScales; ++s) {
    INGOT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const float sum = sums[s][r] + __shfl_xor_sync(kAllLanes, sums[s][r], kPanel);
      if (odd == 0 && r < there) found.sums[r][at * kScales + s][row] = sum;
    }
    if (odd == 0)
      found.scales[at * kScales + s][row] = Packed<format>::whole_scale(panel, step, s / 2, s % 2, row);
  }
}

/// What a thread copies of x, like RowCopies: a column of each step.
template <int rows>
class ColumnCopies {
 public:
  __device__ __forceinline__ ColumnCopies(const float* x, std::int64_t stride, int there, int columns,
                                          int copier)
      : from_(x + copier),
        stride_(stride),
        position_(copier % 2 * kOddColumns + copier / 2),
        there_(there),
        left_(columns - copier) {}

  __device__ __forceinline__ void next(float* to) {
    INGOT_UNROLL
    for (int row = 0; row < rows; ++row) {
      if (row >= there_) break;
      const float* from = from_ + row * stride_;
      INGOT_UNROLL
      for (int step = 0; step < kStageSteps; ++step) {
        if (step * kStepColumns < left_)
          copy_word_async(to + position_ + row * kStageFloats + step * kStepFloats,
                          from + step * kStepColumns, true);
      }
    }
    from_ += kStageSteps * kStepColumns;
    left_ -= kStageSteps * kStepColumns;
  }

 private:
  static_assert(kCopyThreads == kStepColumns);
  const float* from_;
  std::int64_t stride_;
  int position_, there_, left_;
};

/// y and what a stage adds to it, step after step.
template <class Sums>
__device__ __forceinline__ float add_sums(const Sums& found, int steps, int r, int row, float y) {
  add_up<Sums::kCount>(steps * Sums::kScales,
                       [&](int i) { y = fmaf(found.sums[r][i][row], found.scales[i][row], y); });
  return y;
}

template <PackedFormat format, int rows>
__global__ void __launch_bounds__(kMatmulThreads<rows>)
    weight_only_matmul_kernel(const __grid_constant__ PackedMatmulArgs args,
                              const __grid_constant__ CodeValues<format> values) {
  using Stage = WeightOnlyStages<format, rows>;
  constexpr int kColumns = kStageSteps * kStepColumns;
  INGOT_SHARED_ARRAY(float, table, 16);
  INGOT_DYNAMIC_SHARED(std::uint8_t, shared);
  auto* found = reinterpret_cast<StepSums<rows, kStepScales<format>>*>(shared);
  if (threadIdx.x < 16) table[threadIdx.x] = values.table[threadIdx.x];
  const MatmulPosition position(args, rows);
  const Role role(position.rows);
  const auto columns = static_cast<int>(args.k), steps = static_cast<int>(args.count);
  const int stages = (steps + kStageSteps - 1) / kStageSteps;
  constexpr int kPanelHeader = Packed<format>::kPanelHeader;
  const std::uint8_t* panel = args.weight + position.panel * args.panel_bytes;
  PanelCopies<Stage::kWeight> weight(panel + kPanelHeader, args.panel_bytes - kPanelHeader, role.copier);
  ColumnCopies<rows> x(static_cast<const float*>(args.x) + position.row0 * args.x_stride, args.x_stride,
                       position.rows, columns, role.copier);
  float y = 0;
  Stage::run(
      stages,
      [&](int stage) {
        if (!role.copies) return;
        weight.next(Stage::weight(shared, stage));
        x.next(reinterpret_cast<float*>(Stage::x(shared, stage)));
      },
      [&](int stage) {
        if (role.multiplies && stage < stages)
          find_sums<format, rows>(panel, Stage::weight(shared, stage), Stage::x(shared, stage),
                                  columns - stage * kColumns, position.rows, table, found[stage % 2]);
        if (role.adds && stage > 0)
          y = add_sums(found[(stage - 1) % 2], steps - (stage - 1) * kStageSteps, role.r, role.row, y);
      });
  if (role.adds) store_result(args, position.row0 + role.r, position.panel * kPanel + role.row, y);
}

// Of f32: a thread for each result adds the products up, column after column; the sixteen of a panel read one
// line.
constexpr int kPlainRows = 8;
__global__ void __launch_bounds__(kPanel* kPlainRows)
    plain_matmul_kernel(const __grid_constant__ PackedMatmulArgs args) {
  const int me = static_cast<int>(threadIdx.x), lane = me % kPanel;
  const MatmulPosition position(args, kPlainRows);
  const std::int64_t row = position.row0 + me / kPanel, column = position.panel * kPanel + lane;
  if (row >= args.m || column >= args.n) return;
  const auto* weight = reinterpret_cast<const float*>(args.weight + position.panel * args.panel_bytes) + lane;
  const float* x = static_cast<const float*>(args.x) + row * args.x_stride;
  float y = 0;
  for (std::int64_t i = 0; i < args.k; ++i) y = fmaf(x[i], weight[i * kPanel], y);
  store_result(args, row, column, y);
}

void run_weight_only_matmul(const WeightOnlyMatmulArgs& args, Stream stream) {
  PackedMatmulArgs made = packed_matmul_args(args);
  const LaunchSite site{"weight_only_matmul", stream, args.y};
  if (made.m * made.n == 0) return;
  if (args.format == PackedFormat::f32) {
    return launch(site, plain_matmul_kernel, Size3{matmul_grid(made, kPlainRows)}, Size3{kPanel * kPlainRows},
                  0, made);
  }
  made.count = packed_layout(args.format).steps(made.k);
  dispatch_weight_only(args.format, [&]<PackedFormat format>() {
    static_assert(Packed<format>::kStepBlocks * kPackedBlock == kStepColumns);
    const auto run = [&]<int rows>() {
      launch_matmul<WeightOnlyStages<format, rows>>(site, weight_only_matmul_kernel<format, rows>, made, rows,
                                                    kMatmulThreads<rows>, kStageSteps, CodeValues<format>());
    };
    // The sums of four scales a step leave shared memory for half as many rows.
    if constexpr (kStepScales < format >> 1)
      dispatch_rows<1, 4>(made.m, run);
    else
      dispatch_rows<1, 4, 8>(made.m, run);
  });
}

}  // namespace

void register_weight_only() {
  weight_only_matmul.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const WeightOnlyMatmulArgs& args) { return is_weight_only(args.format); },
       run_weight_only_matmul});
}

}  // namespace ingot::kernels::cuda
