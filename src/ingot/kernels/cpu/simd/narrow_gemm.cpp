// Matmuls of half precision of which one size is at most 64, as those of low-rank adapters: too few sums for
// each element that the library widens. The small operand is widened once, the large one as it is read.
#include <algorithm>
#include <array>
#include <utility>

#include "ingot/base/parallel.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/cpu/gemm_plan.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/narrow_gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/lanes-inl.h"

#if !defined(INGOT_NARROW_GEMM_SHARED)
#define INGOT_NARROW_GEMM_SHARED
// Before a loop over the sums of a tile.
#if defined(__clang__)
#define INGOT_UNROLL_16 _Pragma("unroll")
#else
#define INGOT_UNROLL_16 _Pragma("GCC unroll 16")
#endif

namespace ingot::kernels::cpu {

/// Rows and columns of c that are summed in registers.
constexpr std::int64_t kNarrowTile = 16;
/// Of k: what is summed before the next part of the large operand is widened. Its rows lie as far apart.
constexpr std::int64_t kNarrowDepth = 256;
/// Columns of the large operand, where k goes down its rows, that are widened together.
constexpr std::int64_t kNarrowColumns = 128;

/// Where a tile of c is in memory of T, and what is valid of it.
struct NarrowResult {
  void* c;
  std::int64_t rows, cols, c_row;
  float alpha;
  bool accumulate;
};

}  // namespace ingot::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DTile = hn::CappedTag<float, kNarrowTile>;
constexpr int kVectors = static_cast<int>(kNarrowTile / hn::MaxLanes(DTile()));
// As many sums as hide the latency of multiply-adds and leave registers for b.
constexpr int kRows = kVectors == 1 ? 16 : kVectors == 2 ? 4 : 2;

// sums[row][v] += Σ a[row, i] · b[i, v]. b: rows of 16. a: element (row, i) at row + i · kStride where
// kRowsAdjacent, else at row · kStride + i.
template <std::int64_t kStride, bool kRowsAdjacent>
HWY_INLINE void add_products(const float* a, const float* b, std::int64_t k,
                             hn::Vec<DTile> (&sums)[kRows][kVectors]) {
  const DTile d;
  for (std::int64_t i = 0; i < k; ++i) {
    hn::Vec<DTile> column[kVectors];
    INGOT_UNROLL_16
    for (int v = 0; v < kVectors; ++v)
      column[v] = hn::Load(d, b + i * kNarrowTile + v * static_cast<int>(hn::MaxLanes(d)));
    INGOT_UNROLL_16
    for (int row = 0; row < kRows; ++row) {
      const auto factor = hn::Set(d, kRowsAdjacent ? a[i * kStride + row] : a[row * kStride + i]);
      INGOT_UNROLL_16
      for (int v = 0; v < kVectors; ++v) sums[row][v] = hn::MulAdd(factor, column[v], sums[row][v]);
    }
  }
}

// sums [16, 16] (+)= a [16, k] · b [k, 16].
template <std::int64_t kStride, bool kRowsAdjacent>
void sum_tile(const float* a, const float* b, std::int64_t k, float* sums, bool accumulate) {
  const DTile d;
  constexpr auto kLanes = static_cast<int>(hn::MaxLanes(DTile()));
  for (std::int64_t first = 0; first < kNarrowTile; first += kRows) {
    hn::Vec<DTile> part[kRows][kVectors];
    float* to = sums + first * kNarrowTile;
    INGOT_UNROLL_16
    for (int row = 0; row < kRows; ++row) {
      INGOT_UNROLL_16
      for (int v = 0; v < kVectors; ++v)
        part[row][v] = accumulate ? hn::Load(d, to + row * kNarrowTile + v * kLanes) : hn::Zero(d);
    }
    add_products<kStride, kRowsAdjacent>(a + (kRowsAdjacent ? first : first * kStride), b, k, part);
    INGOT_UNROLL_16
    for (int row = 0; row < kRows; ++row) {
      INGOT_UNROLL_16
      for (int v = 0; v < kVectors; ++v) hn::Store(part[row][v], d, to + row * kNarrowTile + v * kLanes);
    }
  }
}

void sum_tile_of_rows(const float* a, const float* b, std::int64_t k, float* sums, bool accumulate) {
  sum_tile<kNarrowDepth, false>(a, b, k, sums, accumulate);
}
void sum_tile_of_columns(const float* a, const float* b, std::int64_t k, float* sums, bool accumulate) {
  sum_tile<kNarrowColumns, true>(a, b, k, sums, accumulate);
}

// c (+)= alpha · sums [16, 16].
template <class T>
HWY_INLINE void store_sums(const float* sums, const NarrowResult& to) {
  const DTile d;
  constexpr auto kLanes = static_cast<int>(hn::MaxLanes(DTile()));
  const auto alpha = hn::Set(d, to.alpha);
  for (std::int64_t row = 0; row < to.rows; ++row) {
    T* c = static_cast<T*>(to.c) + row * to.c_row;
    const float* from = sums + row * kNarrowTile;
    if (to.cols == kNarrowTile) {
      INGOT_UNROLL_16
      for (int v = 0; v < kVectors; ++v)
        store_lanes(d, hn::Mul(alpha, hn::Load(d, from + v * kLanes)), c + v * kLanes, to.accumulate);
      continue;
    }
    for (std::int64_t j = 0; j < to.cols; ++j)
      c[j] = static_cast<T>(to.alpha * from[j] + (to.accumulate ? static_cast<float>(c[j]) : 0.0F));
  }
}

// Sixteen rows of c (+)= alpha · a [16, k] · b: a with adjacent rows, b in panels [k, 16].
template <class T>
void multiply_rows_of(const float* a, const float* b, std::int64_t k, NarrowResult to) {
  HWY_ALIGN float sums[kNarrowTile * kNarrowTile];
  const std::int64_t n = to.cols;
  T* c = static_cast<T*>(to.c);
  for (std::int64_t col = 0; col < n; col += kNarrowTile) {
    sum_tile<kNarrowTile, true>(a, b + col * k, k, sums, false);
    to.c = c + col;
    to.cols = std::min(kNarrowTile, n - col);
    store_sums<T>(sums, to);
  }
}

void multiply_rows_bf16(const float* a, const float* b, std::int64_t k, const NarrowResult& to) {
  multiply_rows_of<bf16>(a, b, k, to);
}
void multiply_rows_f16(const float* a, const float* b, std::int64_t k, const NarrowResult& to) {
  multiply_rows_of<f16>(a, b, k, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(sum_tile_of_rows);
HWY_EXPORT(sum_tile_of_columns);
HWY_EXPORT(multiply_rows_bf16);
HWY_EXPORT(multiply_rows_f16);

constexpr std::int64_t kNarrow = 64;
constexpr std::int64_t kTileFloats = kNarrowTile * kNarrowTile;
constexpr std::int64_t kGrain = 1 << 18;  // multiply-adds, several times what waking a thread costs

std::int64_t tiles(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }
std::int64_t grain_of(std::int64_t work_of_item) { return 1 + kGrain / work_of_item; }

/// A matrix of half precision with adjacent rows or columns.
struct NarrowOperand {
  const void* data;
  DType dtype;
  std::int64_t row, col;  // strides

  bool has_layout() const { return row == 1 || col == 1; }
  const std::uint16_t* at(std::int64_t i, std::int64_t j) const {
    return static_cast<const std::uint16_t*>(data) + i * row + j * col;
  }
  // to[i · stride + j], rows and columns from (i, j) on.
  void load(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols, float* to,
            std::int64_t stride) const {
    if (col == 1) return load_tile({at(i, j), dtype, rows, cols, row}, to, stride);
    load_tile_transposed({at(i, j), dtype, cols, rows, col}, to, stride);
  }
  // to[j · stride + i]
  void load_transposed(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols, float* to,
                       std::int64_t stride) const {
    if (row == 1) return load_tile({at(i, j), dtype, cols, rows, col}, to, stride);
    load_tile_transposed({at(i, j), dtype, rows, cols, row}, to, stride);
  }
};

NarrowOperand a_of(const GemmPlan& plan, DType dtype) { return {plan.a, dtype, plan.a_row, plan.a_col}; }
NarrowOperand b_of(const GemmPlan& plan, DType dtype) { return {plan.b, dtype, plan.b_row, plan.b_col}; }

// b in panels of 16 columns, [k, 16] each; columns beyond n are zeros.
float* widened_panels(const GemmPlan& plan, DType dtype) {
  const NarrowOperand b = b_of(plan, dtype);
  const std::int64_t panels = tiles(plan.n, kNarrowTile), parts = tiles(plan.k, kNarrowDepth);
  float* to = thread_scratch(0, static_cast<std::size_t>(panels * plan.k * kNarrowTile));
  parallel_for(panels * parts, grain_of(16 * kNarrowTile * kNarrowDepth),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t item = begin; item < end; ++item) {
                   const std::int64_t col = item / parts * kNarrowTile, i = item % parts * kNarrowDepth;
                   const std::int64_t cols = std::min(kNarrowTile, plan.n - col),
                                      depth = std::min(kNarrowDepth, plan.k - i);
                   float* panel = to + (col * plan.k + i * kNarrowTile);
                   if (cols < kNarrowTile) std::fill_n(panel, depth * kNarrowTile, 0.0F);
                   b.load(i, col, depth, cols, panel, kNarrowTile);
                 }
               });
  return to;
}

// k is small: each element of c is a sum of few products, and most of the time goes to reading and writing c.
void run_small_depth(const GemmPlan& plan, const GemmArgs& args) {
  const DType dtype = args.c.dtype;
  const float* b = widened_panels(plan, dtype);
  const NarrowOperand a = a_of(plan, dtype);
  const auto rows_of = [&](std::int64_t begin, std::int64_t end) {
    float* tile = thread_scratch(1, static_cast<std::size_t>(kNarrowTile * plan.k));
    for (std::int64_t row = begin * kNarrowTile; row < std::min(plan.m, end * kNarrowTile);
         row += kNarrowTile) {
      const std::int64_t rows = std::min(kNarrowTile, plan.m - row);
      if (rows < kNarrowTile) std::fill_n(tile, kNarrowTile * plan.k, 0.0F);
      a.load_transposed(row, 0, rows, plan.k, tile, kNarrowTile);
      const NarrowResult to{plan.c_at<std::uint16_t>(row * plan.c_row),
                            rows,
                            plan.n,
                            plan.c_row,
                            args.alpha,
                            args.beta != 0.0F};
      if (dtype == DType::bf16) {
        HWY_DYNAMIC_DISPATCH(multiply_rows_bf16)(tile, b, plan.k, to);
      } else {
        HWY_DYNAMIC_DISPATCH(multiply_rows_f16)(tile, b, plan.k, to);
      }
    }
  };
  parallel_for(tiles(plan.m, kNarrowTile), grain_of(kNarrowTile * plan.n * plan.k), rows_of);
}

/// n is small: sums over a long k, for which rows of a are widened in parts.
class SmallWidth {
 public:
  SmallWidth(const GemmPlan& plan, const GemmArgs& args)
      : plan_(plan), args_(args), a_(a_of(plan, args.c.dtype)), panels_(tiles(plan.n, kNarrowTile)) {}

  void run() const {
    const float* b = widened_panels(plan_, args_.c.dtype);
    const bool by_rows = a_.col == 1;
    const std::int64_t rows = by_rows ? kNarrowTile : kNarrowColumns;
    parallel_for(tiles(plan_.m, rows), grain_of(rows * plan_.n * plan_.k),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     multiply(b, i * rows, std::min(rows, plan_.m - i * rows), by_rows);
                 });
  }

 private:
  // Rows [row, row + rows) of c.
  void multiply(const float* b, std::int64_t row, std::int64_t rows, bool by_rows) const {
    float* wide = thread_scratch(1, static_cast<std::size_t>(kNarrowColumns * kNarrowDepth));
    float* sums =
        thread_scratch(2, static_cast<std::size_t>(kNarrowColumns / kNarrowTile * panels_ * kTileFloats));
    for (std::int64_t i = 0; i < plan_.k; i += kNarrowDepth) {
      const std::int64_t depth = std::min(kNarrowDepth, plan_.k - i);
      if (by_rows) {
        if (rows < kNarrowTile) std::fill_n(wide, kNarrowTile * kNarrowDepth, 0.0F);
        a_.load(row, i, rows, depth, wide, kNarrowDepth);
      } else {
        if (rows < kNarrowColumns) std::fill_n(wide, kNarrowColumns * depth, 0.0F);
        a_.load_transposed(row, i, rows, depth, wide, kNarrowColumns);
      }
      for (std::int64_t tile = 0; tile * kNarrowTile < rows; ++tile) {
        for (std::int64_t panel = 0; panel < panels_; ++panel) {
          const float* part = b + panel * plan_.k * kNarrowTile + i * kNarrowTile;
          float* to = sums + (tile * panels_ + panel) * kTileFloats;
          if (by_rows) {
            HWY_DYNAMIC_DISPATCH(sum_tile_of_rows)(wide, part, depth, to, i > 0);
          } else {
            HWY_DYNAMIC_DISPATCH(sum_tile_of_columns)(wide + tile * kNarrowTile, part, depth, to, i > 0);
          }
        }
      }
    }
    store(sums, row, rows);
  }

  // From tiles of 16 x 16, which lie one after the other. c may be a transposed matrix.
  void store(const float* sums, std::int64_t row, std::int64_t rows) const {
    for (std::int64_t i = 0; i < rows; i += kNarrowTile) {
      for (std::int64_t j = 0; j < plan_.n; j += kNarrowTile, sums += kTileFloats)
        store_one(sums, row + i, std::min(kNarrowTile, rows - i), j, std::min(kNarrowTile, plan_.n - j));
    }
  }

  void store_one(const float* sums, std::int64_t row, std::int64_t rows, std::int64_t col,
                 std::int64_t cols) const {
    alignas(64) std::array<float, kTileFloats> scaled;
    const ConstTile tile{sums, DType::f32, rows, cols, kNarrowTile};
    Tile to{plan_.c_at<std::uint16_t>(row * plan_.c_row + col * plan_.c_col), args_.c.dtype, rows, cols,
            plan_.c_row};
    if (plan_.c_col == 1) {
      load_tile(tile, scaled.data(), kNarrowTile, args_.alpha);
    } else {
      load_tile_transposed(tile, scaled.data(), kNarrowTile, args_.alpha);
      std::swap(to.rows, to.cols);
      to.row_stride = plan_.c_col;
    }
    store_tile(scaled.data(), kNarrowTile, to, args_.beta != 0.0F);
  }

  const GemmPlan& plan_;
  const GemmArgs& args_;
  NarrowOperand a_;
  std::int64_t panels_;
};

bool is_small_depth(GemmPlan& plan) {
  if (plan.k > kNarrow) return false;
  if (plan.c_col != 1) plan.transpose();
  return plan.c_col == 1;
}

bool is_small_width(GemmPlan& plan) {
  if (plan.n > plan.m) plan.transpose();
  return plan.n <= kNarrow && (plan.c_col == 1 || plan.c_row == 1);
}

bool accepts_narrow(const GemmArgs& args) {
  constexpr std::int64_t kSmall = 1 << 20;  // multiply-adds, about 10 us of one core
  const bool plain = is_half_precision(args.c.dtype) && args.b.dtype == args.c.dtype && !args.bias &&
                     (args.beta == 0.0F || args.beta == 1.0F);
  if (!plain) return false;
  GemmPlan plan(args);
  if (plan.summed_count != 1 || plan.batch_count != 1 || plan.m * plan.n * plan.k < kSmall) return false;
  if (!is_small_depth(plan) && !is_small_width(plan)) return false;
  return a_of(plan, args.c.dtype).has_layout() && b_of(plan, args.c.dtype).has_layout() &&
         (args.c.dtype == DType::f16 || !use_bf16_dot_products());
}

void run_narrow(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  if (is_small_depth(plan)) return run_small_depth(plan, args);
  is_small_width(plan);
  SmallWidth(plan, args).run();
}

}  // namespace

void register_narrow_gemm() {
  gemm.add(DeviceType::cpu, {"narrow", ImplKind::simd, accepts_narrow, run_narrow});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE
