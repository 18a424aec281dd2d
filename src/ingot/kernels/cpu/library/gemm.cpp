#include "ingot/kernels/gemm.h"

#include <algorithm>

#include <dnnl.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/cpu/dequantize.h"
#include "ingot/kernels/cpu/library/gemm_layout.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/library/onednn_matmul.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/packed.h"
#include "ingot/kernels/quantized.h"

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

// One matmul of floats: by the primitive where b is transposed, which sgemm packs slowly.
void multiply(const SgemmSizes& size, float alpha, Matrix a_layout, const float* a, Matrix b_layout,
              const float* b, float beta, float* c, std::int64_t ldc) {
  const bool simple = alpha == 1.0F && (beta == 0.0F || beta == 1.0F);
  if (b_layout.layout == 'N' || !simple || !onednn_has_avx512())
    return sgemm(size, alpha, a_layout, a, b_layout, b, beta, c, ldc);
  OnednnMatmul({size.m, size.n, size.k}, {a_layout, b_layout, ldc}, {.accumulate = beta != 0.0F})
      .run(a, b, nullptr, c);
}

/// Rows [row, row + rows) and columns [col, col + cols) of b; `offset` of b's elements: where this matmul's
/// begin.
struct Piece {
  std::int64_t offset, row, rows, col, cols;
};
/// The piece as floats in `to`.
using LoadPiece = FunctionRef<Matrix(const Piece&, float* to)>;

/// Half precision in blocks that are widened to f32: for processors without fast dot products of bf16, and
/// for f16.
class WidenedGemm {
 public:
  WidenedGemm(const GemmPlan& plan, const Layouts& layouts, const GemmArgs& args, LoadPiece load_b)
      : plan_(plan),
        layouts_(layouts),
        args_(args),
        load_b_(load_b),
        rows_(std::min(plan.m, kRows)),
        depth_(plan.k <= kWholeDepth ? plan.k : kDepth),
        cols_(std::min(plan.n, block_columns(depth_))),
        a_(thread_scratch(0, static_cast<std::size_t>(rows_ * depth_))),
        b_(thread_scratch(1, static_cast<std::size_t>(cols_ * depth_))),
        c_(thread_scratch(2, static_cast<std::size_t>(rows_ * cols_))),
        bias_(thread_scratch(3, static_cast<std::size_t>(cols_))) {}

  // Rows of a outside: a block of it is widened once, and b is, which is a weight, for each. Where sums are
  // over more than that, a is widened for each block of columns.
  void run(std::int64_t item) {
    const auto at = plan_.batch_offsets(item);
    const bool once = plan_.summed_count == 1 && depth_ == plan_.k;
    for (std::int64_t row = 0; row < plan_.m; row += kRows) {
      const std::int64_t rows = std::min(kRows, plan_.m - row);
      if (once) widen_a(at.a, row, rows, 0, plan_.k);
      for (std::int64_t col = 0; col < plan_.n; col += cols_) {
        const std::int64_t cols = std::min(cols_, plan_.n - col);
        if (args_.bias) set_to_bias_of(col, rows, cols);
        bool adds = static_cast<bool>(args_.bias);
        for (std::int64_t s = 0; s < plan_.summed_count; ++s) {
          const auto inner = plan_.summed_offsets(s);
          for (std::int64_t first = 0; first < plan_.k; first += depth_) {
            const std::int64_t depth = std::min(depth_, plan_.k - first);
            if (!once) widen_a(at.a + inner.a, row, rows, first, depth);
            const Matrix b = load_b_({at.b + inner.b, first, depth, col, cols}, b_);
            multiply({rows, cols, depth}, args_.alpha, a_layout_, a_, b, b_, adds ? 1.0F : 0.0F, c_, cols);
            adds = true;
          }
        }
        store_tile(c_, cols,
                   {plan_.c_at<std::uint16_t>(at.c + row * plan_.c_row + col), args_.c.dtype, rows, cols,
                    plan_.c_row},
                   args_.beta != 0.0F);
      }
    }
  }

 private:
  static constexpr std::int64_t kRows = 512;
  // Longer sums are cut, so that the pieces of a and b stay in the cache: those of kDepth.
  static constexpr std::int64_t kWholeDepth = 4096, kDepth = 1024;

  // Whole blocks of packed weights.
  static std::int64_t block_columns(std::int64_t k) {
    constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;
    return std::clamp<std::int64_t>(kBlockElements / k / kPackedBlock * kPackedBlock, 64, 1024);
  }

  void widen_a(std::int64_t offset, std::int64_t row, std::int64_t rows, std::int64_t first,
               std::int64_t depth) {
    a_layout_ = widen(plan_.a_at<std::uint16_t>(offset + row * plan_.a_row + first * plan_.a_col),
                      args_.c.dtype, layouts_.a, rows, depth, a_);
  }

  void set_to_bias_of(std::int64_t col, std::int64_t rows, std::int64_t cols) {
    load_tile({args_.bias.as<std::uint16_t>() + col, args_.bias.dtype, 1, cols, cols}, bias_, cols);
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(bias_, cols, c_ + i * cols);
  }

  const GemmPlan& plan_;
  const Layouts& layouts_;
  const GemmArgs& args_;
  LoadPiece load_b_;
  std::int64_t rows_, depth_, cols_;
  float *a_, *b_, *c_, *bias_;
  Matrix a_layout_;
};

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
    multiply({plan.m, n, plan.k}, args.alpha, a, static_cast<const float*>(plan.a), wide, b, beta, c + at,
             plan.c_row);
  }
}

void run_f32(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) gemm_f32(plan, layouts, args, i);
  });
}

void run_half(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  const auto load_b = [&](const Piece& of, float* to) {
    return widen(plan.b_at<std::uint16_t>(of.offset + of.row * plan.b_row + of.col * plan.b_col),
                 args.c.dtype, layouts.b, of.rows, of.cols, to);
  };
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    WidenedGemm widened(plan, layouts, args, load_b);
    for (std::int64_t i = begin; i < end; ++i) widened.run(i);
  });
}

// Where gemm itself would take run_half.
bool accepts_dequantized(const DequantizedGemmArgs& args) {
  const GemmArgs gemm = args.gemm();
  return args.format != PackedFormat::f32 && args.a.dtype == DType::bf16 && args.c.dtype == DType::bf16 &&
         args.c.stride(1) == 1 && args.c.stride(0) >= args.c.dim(1) && accepts_half(gemm) &&
         widening_pays(args.a.dim(0), args.c.dim(1)) && !use_bf16_dot_products();
}

void run_dequantized(const DequantizedGemmArgs& args, Stream) {
  const GemmArgs gemm = args.gemm();
  GemmPlan plan(gemm);
  Layouts layouts;
  find_layouts(plan, layouts);
  // Of the weight as it lies: its rows are columns of b where it is transposed.
  const auto dequantized = [&](const Piece& of, float* to) -> Matrix {
    if (args.transposed) {
      dequantize_piece({args.format, args.weight, of.col, of.cols, of.row, of.rows}, to);
      return {'T', of.rows};
    }
    dequantize_piece({args.format, args.weight, of.row, of.rows, of.col, of.cols}, to);
    return {'N', of.cols};
  };
  WidenedGemm(plan, layouts, gemm, dequantized).run(0);
}

}  // namespace

void register_gemm_library() {
  gemm.add(DeviceType::cpu, {"onednn", ImplKind::library, accepts_f32, run_f32});
  gemm.add(DeviceType::cpu, {"onednn_widened", ImplKind::library, accepts_half, run_half});
  gemm.add(DeviceType::cpu,
           {"onednn_half_weights", ImplKind::library, accepts_half_weights, run_half_weights});
  dequantized_gemm.add(DeviceType::cpu,
                       {"onednn_widened", ImplKind::library, accepts_dequantized, run_dequantized});
}

}  // namespace ingot::kernels::cpu
