#include "ingot/kernels/gemm.h"

#include <algorithm>

#include <dnnl.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/library/gemm_layout.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

bool accepts_f32(const GemmArgs& args) {
  return args.c.dtype == DType::f32 && args.b.dtype == DType::f32 && has_blas_layouts(args);
}

bool accepts_half(const GemmArgs& args) {
  return is_half_precision(args.c.dtype) && (args.beta == 0.0F || args.beta == 1.0F) &&
         has_blas_layouts(args);
}

// Weights in half precision [n, k], everything else f32.
bool accepts_half_weights(const GemmArgs& args) {
  if (args.c.dtype != DType::f32 || !is_half_precision(args.b.dtype) || !has_blas_layouts(args)) return false;
  const GemmPlan plan(args);
  Matrix a;
  return plan.summed_count == 1 && plan.batch_count == 1 && plan.b_row == 1 && plan.b_col >= plan.k &&
         plan.c_col == 1 && plan.c_row >= plan.n && as_matrix(plan.m, plan.k, plan.a_row, plan.a_col, a);
}

struct SgemmSizes {
  std::int64_t m, n, k;
};

void sgemm(const SgemmSizes& size, float alpha, Matrix a_layout, const float* a, Matrix b_layout,
           const float* b, float beta, float* c, std::int64_t ldc) {
  const dnnl_status_t status = dnnl_sgemm(a_layout.layout, b_layout.layout, size.m, size.n, size.k, alpha, a,
                                          a_layout.ld, b, b_layout.ld, beta, c, ldc);
  INGOT_CHECK(status == dnnl_success,
              KernelError("gemm", "oneDNN refused the matmul (status " + std::to_string(status) + ")"));
}

// c = beta·c + bias, so that a·b can be added to it.
void set_to_bias(const GemmPlan& plan, const float* bias, float beta, float* c) {
  constexpr std::int64_t kGrainElements = 65536;
  parallel_for(plan.m, kGrainElements / plan.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* y = c + row * plan.c_row;
      if (beta == 0.0F) {
        std::copy_n(bias, plan.n, y);
      } else {
        for (std::int64_t j = 0; j < plan.n; ++j) y[j] = beta * y[j] + bias[j];
      }
    }
  });
}

void gemm_f32(const GemmPlan& plan, const Layouts& layouts, const GemmArgs& args, std::int64_t item) {
  const auto at = plan.batch_offsets(item);
  float* c = plan.c_at<float>(at.c);
  float beta = args.beta;
  if (args.bias) {
    set_to_bias(plan, args.bias.as<float>(), beta, c);
    beta = 1.0F;
  }
  for (std::int64_t s = 0; s < plan.summed_count; ++s) {
    const auto inner = plan.summed_offsets(s);
    sgemm({plan.m, plan.n, plan.k}, args.alpha, layouts.a, plan.a_at<float>(at.a + inner.a), layouts.b,
          plan.b_at<float>(at.b + inner.b), s == 0 ? beta : 1.0F, c, plan.c_row);
  }
}

// The piece of a half-precision matrix that starts at (row, col), as floats in `to`, in the same layout.
Matrix widen(const std::uint16_t* from, DType dtype, Matrix layout, std::int64_t rows, std::int64_t cols,
             float* to) {
  if (layout.layout == 'T') std::swap(rows, cols);
  const ConstTile tile{from, dtype, rows, cols, layout.ld};
  constexpr std::int64_t kGrainElements = 65536;
  parallel_for(rows, kGrainElements / cols, [&](std::int64_t begin, std::int64_t end) {
    ConstTile part = tile;
    part.data = tile.row<std::uint16_t>(begin);
    part.rows = end - begin;
    load_tile(part, to + begin * cols, cols);
  });
  return {layout.layout, cols};
}

// Half precision in blocks that are widened to f32, for processors without dot products of bf16, and for f16.
void gemm_half(const GemmPlan& plan, const Layouts& layouts, const GemmArgs& args, std::int64_t item) {
  constexpr std::int64_t kBlockElements = std::int64_t{1} << 21;  // of b: 8 MiB as floats
  const auto at = plan.batch_offsets(item);
  const std::int64_t nb = std::clamp<std::int64_t>(kBlockElements / plan.k, 64, 1024);
  const std::int64_t mb = std::min<std::int64_t>(plan.m, 512);
  float* a = thread_scratch(0, static_cast<std::size_t>(mb * plan.k));
  float* b = thread_scratch(1, static_cast<std::size_t>(std::min(nb, plan.n) * plan.k));
  float* c = thread_scratch(2, static_cast<std::size_t>(mb * std::min(nb, plan.n)));
  float* bias = thread_scratch(3, static_cast<std::size_t>(std::min(nb, plan.n)));
  for (std::int64_t n0 = 0; n0 < plan.n; n0 += nb) {
    const std::int64_t n = std::min(nb, plan.n - n0);
    Matrix b_block;
    for (std::int64_t m0 = 0; m0 < plan.m; m0 += mb) {
      const std::int64_t m = std::min(mb, plan.m - m0);
      if (args.bias) {
        load_tile({args.bias.as<std::uint16_t>() + n0, args.bias.dtype, 1, n, n}, bias, n);
        for (std::int64_t i = 0; i < m; ++i) std::copy_n(bias, n, c + i * n);
      }
      for (std::int64_t s = 0; s < plan.summed_count; ++s) {
        const auto inner = plan.summed_offsets(s);
        if (m0 == 0 || plan.summed_count > 1) {
          b_block = widen(plan.b_at<std::uint16_t>(at.b + inner.b + n0 * plan.b_col), args.c.dtype, layouts.b,
                          plan.k, n, b);
        }
        const Matrix a_block = widen(plan.a_at<std::uint16_t>(at.a + inner.a + m0 * plan.a_row), args.c.dtype,
                                     layouts.a, m, plan.k, a);
        sgemm({m, n, plan.k}, args.alpha, a_block, a, b_block, b, s > 0 || args.bias ? 1.0F : 0.0F, c, n);
      }
      store_tile(c, n,
                 {plan.c_at<std::uint16_t>(at.c + m0 * plan.c_row + n0), args.c.dtype, m, n, plan.c_row},
                 args.beta != 0.0F);
    }
  }
}

void run_half_weights(const GemmArgs& args, Stream) {
  constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;  // of b: 4 MiB as floats
  const GemmPlan plan(args);
  Matrix a;
  as_matrix(plan.m, plan.k, plan.a_row, plan.a_col, a);
  auto* c = static_cast<float*>(plan.c);
  float beta = args.beta;
  if (args.bias) {
    set_to_bias(plan, args.bias.as<float>(), beta, c);
    beta = 1.0F;
  }
  const std::int64_t block = std::min(plan.n, std::clamp<std::int64_t>(kBlockElements / plan.k, 64, 1024));
  float* b = thread_scratch(1, static_cast<std::size_t>(block * plan.k));
  for (std::int64_t at = 0; at < plan.n; at += block) {
    const std::int64_t n = std::min(block, plan.n - at);
    const Matrix wide =
        widen(plan.b_at<std::uint16_t>(at * plan.b_col), args.b.dtype, {'T', plan.b_col}, plan.k, n, b);
    sgemm({plan.m, n, plan.k}, args.alpha, a, static_cast<const float*>(plan.a), wide, b, beta, c + at,
          plan.c_row);
  }
}

void run(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  const auto product = args.c.dtype == DType::f32 ? gemm_f32 : gemm_half;
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) product(plan, layouts, args, i);
  });
}

}  // namespace

void register_gemm_library() {
  gemm.add(DeviceType::cpu, {"onednn", ImplKind::library, accepts_f32, run});
  gemm.add(DeviceType::cpu, {"onednn_widened", ImplKind::library, accepts_half, run});
  gemm.add(DeviceType::cpu,
           {"onednn_half_weights", ImplKind::library, accepts_half_weights, run_half_weights});
}

}  // namespace ingot::kernels::cpu
