// Matmuls by oneDNN's primitive: of bf16 matrices with the processor's dot products (VDPBF16PS,
// AMX; sums in f32, rounded once; these instructions take subnormal numbers for 0), and of f32 ones where it
// is faster than sgemm. With matmul_precision() medium, f32 matrices are rounded to bf16 on the way in.
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/cpu/library/gemm_layout.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/library/onednn_matmul.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/matmul_precision.h"

namespace ingot::kernels::cpu {
namespace {

OnednnMatmul::Size size_of(const GemmPlan& plan) { return {plan.m, plan.n, plan.k}; }
OnednnMatmul::Strides strides_of(const GemmPlan& plan, const Layouts& layouts) {
  return {layouts.a, layouts.b, plan.c_row};
}

// Whether the primitive can take them as the kernel says, but for the sums over a batch.
bool primitive_accepts(const GemmArgs& args, DType dtype) {
  return args.c.dtype == dtype && args.b.dtype == dtype && args.alpha == 1.0F &&
         (args.beta == 0.0F || args.beta == 1.0F) && has_blas_layouts(args);
}

bool accepts_bf16(const GemmArgs& args) {
  if (!primitive_accepts(args, DType::bf16)) return false;
  const GemmPlan plan(args);
  if (plan.summed_count > 1) return false;  // what is summed would be rounded in between
  // The first is asked of large matmuls even where there are none: it tells who wants them.
  return (!widening_pays(plan.m, plan.n) || use_bf16_dot_products()) && onednn_has_bf16();
}

// Rounding an element costs 0.11 to 0.15 ns, as much as 20 to 30 multiply-adds save.
bool accepts_rounded(const GemmArgs& args) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // multiply-adds, about 10 us of one core
  constexpr std::int64_t kRoundingPays = 32;
  if (matmul_precision() != MatmulPrecision::medium || !primitive_accepts(args, DType::f32)) return false;
  const GemmPlan plan(args);
  return plan.m * plan.n * plan.k >= kSmall && conversion_pays(plan.m, plan.n, kRoundingPays) &&
         use_bf16_dot_products();
}

// sgemm packs a transposed b slowly: forward matmuls of linear layers. Small ones are not worth a primitive.
bool accepts_transposed(const GemmArgs& args) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 21;  // multiply-adds, about 25 µs
  if (!primitive_accepts(args, DType::f32) || !onednn_has_avx512()) return false;
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  return plan.batch_count == 1 && plan.summed_count == 1 && layouts.a.layout == 'N' &&
         layouts.b.layout == 'T' && plan.m * plan.n * plan.k >= kSmall;
}

void run_primitive(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  const DType dtype = args.c.dtype;
  const auto bytes = static_cast<std::int64_t>(byte_size(dtype));
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    const OnednnMatmul matmul(size_of(plan), strides_of(plan, layouts),
                              {dtype, dtype, static_cast<bool>(args.bias), args.beta != 0.0F});
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = plan.batch_offsets(i);
      matmul.run(plan.a_at<char>(at.a * bytes), plan.b_at<char>(at.b * bytes), args.bias.data,
                 plan.c_at<char>(at.c * bytes));
    }
  });
}

/// A matrix of f32, rounded to bf16 without gaps in this thread's scratch memory, in the same layout.
class Rounded {
 public:
  Rounded(std::size_t slot, std::int64_t rows, std::int64_t cols, Matrix layout)
      : rows_(layout.layout == 'N' ? rows : cols),
        cols_(layout.layout == 'N' ? cols : rows),
        layout_(layout),
        to_(thread_scratch(slot, static_cast<std::size_t>((rows * cols + 1) / 2))) {}

  Matrix layout() const { return {layout_.layout, cols_}; }

  /// Rounds the one at `from`, unless it is the one before: a weight that is broadcast along the batch.
  const void* round(const float* from) {
    if (from == from_) return to_;
    from_ = from;
    constexpr std::int64_t kGrainElements = 65536;
    parallel_for(rows_, kGrainElements / cols_, [&](std::int64_t begin, std::int64_t end) {
      auto* to = static_cast<std::uint16_t*>(to_) + begin * cols_;
      store_tile(from + begin * layout_.ld, layout_.ld, {to, DType::bf16, end - begin, cols_, cols_}, false);
    });
    return to_;
  }

 private:
  std::int64_t rows_, cols_;  // of what lies in memory: `cols` adjacent elements
  Matrix layout_;
  void* to_;
  const float* from_ = nullptr;
};

void run_rounded(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    Rounded a(1, plan.m, plan.k, layouts.a), b(2, plan.k, plan.n, layouts.b);
    const Layouts rounded{a.layout(), b.layout()};
    OnednnMatmul::Kind kind{DType::bf16, DType::f32, static_cast<bool>(args.bias), args.beta != 0.0F};
    const OnednnMatmul first(size_of(plan), strides_of(plan, rounded), kind);
    kind.biased = false, kind.accumulate = true;
    const OnednnMatmul next =
        plan.summed_count > 1 ? OnednnMatmul(size_of(plan), strides_of(plan, rounded), kind) : first;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = plan.batch_offsets(i);
      for (std::int64_t s = 0; s < plan.summed_count; ++s) {
        const auto inner = plan.summed_offsets(s);
        const void* left = a.round(plan.a_at<float>(at.a + inner.a));
        const void* right = b.round(plan.b_at<float>(at.b + inner.b));
        (s == 0 ? first : next).run(left, right, s == 0 ? args.bias.data : nullptr, plan.c_at<float>(at.c));
      }
    }
  });
}

}  // namespace

void register_gemm_primitive() {
  gemm.add(DeviceType::cpu, {"onednn_bf16_rounded", ImplKind::library, accepts_rounded, run_rounded,
                             InstructionSet::avx512_bf16});
  gemm.add(DeviceType::cpu,
           {"onednn_bf16", ImplKind::library, accepts_bf16, run_primitive, InstructionSet::avx512_bf16});
  gemm.add(DeviceType::cpu, {"onednn_transposed", ImplKind::library, accepts_transposed, run_primitive,
                             InstructionSet::avx512});
}

}  // namespace ingot::kernels::cpu
