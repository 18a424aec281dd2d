#pragma once

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/gemm_plan.h"

namespace ingot::kernels::cpu {

/// A matrix in memory as BLAS knows it: columns adjacent ('N') or rows adjacent ('T').
struct Matrix {
  char layout = 'N';
  std::int64_t ld = 0;
};

/// False where the strides `row` and `col` of a matrix are neither.
inline bool as_matrix(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col, Matrix& to) {
  if (col == 1 && row >= cols) {
    to = {'N', row};
    return true;
  }
  to = {'T', col};
  return row == 1 && col >= rows;
}

struct Layouts {
  Matrix a, b;
};

/// Makes c row-major (by transposing the whole matmul where it is not); false where BLAS has no words for
/// these strides.
inline bool find_layouts(GemmPlan& plan, Layouts& to) {
  if (plan.c_col != 1 || plan.c_row < plan.n) plan.transpose();
  return plan.c_col == 1 && plan.c_row >= plan.n && as_matrix(plan.m, plan.k, plan.a_row, plan.a_col, to.a) &&
         as_matrix(plan.k, plan.n, plan.b_row, plan.b_col, to.b);
}

/// Whether find_layouts() has layouts for these arguments, with a bias along the rows of c.
inline bool has_blas_layouts(const GemmArgs& args) {
  GemmPlan plan(args);
  Layouts layouts;
  if (plan.empty() || !find_layouts(plan, layouts)) return false;
  return !args.bias || (args.bias.is_contiguous() && args.c.stride(-1) == 1 && plan.n == args.bias.dim(0));
}

/// Whether converting both operands of [m, k] times [k, n] pays where that costs as much as `elements`
/// multiply-adds gain: one of a takes part in n of them, one of b in m.
inline bool conversion_pays(std::int64_t m, std::int64_t n, std::int64_t elements) {
  return m * n >= elements * (m + n);
}
/// Whether large matmuls of bf16 may be widened to f32.
inline bool widening_pays(std::int64_t m, std::int64_t n) { return conversion_pays(m, n, 64); }

/// body(begin, end) for ranges of a plan's batch items. Many small matmuls: one per thread at a time. Few or
/// large ones: all threads inside each.
template <class Body>
void for_item_ranges(const GemmPlan& plan, Body&& body) {
  constexpr std::int64_t kLargeMatmul = std::int64_t{1} << 25;  // multiply-adds, about 0.4 ms of one core
  constexpr std::int64_t kGrain = 1 << 18;  // multiply-adds, several times what waking a thread costs
  const std::int64_t work = plan.m * plan.n * plan.k * plan.summed_count;
  if (plan.batch_count > 1 && (work < kLargeMatmul || plan.batch_count >= 4 * num_threads())) {
    parallel_for(plan.batch_count, kGrain / work + 1, body);
  } else {
    body(0, plan.batch_count);
  }
}

}  // namespace ingot::kernels::cpu
