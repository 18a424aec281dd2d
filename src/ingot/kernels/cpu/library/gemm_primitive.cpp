// Matmuls by oneDNN's primitive: of bf16 matrices with the processor's dot products (VDPBF16PS,
// AMX; sums in f32, rounded once; these instructions take subnormal numbers for 0), and of f32 ones where it
// is faster than sgemm. With matmul_precision() medium, f32 matrices are rounded to bf16 on the way in.
#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/library/gemm_layout.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"
#include "ingot/kernels/matmul_precision.h"

namespace ingot::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

Desc describe(std::int64_t rows, std::int64_t cols, Matrix layout, DType dtype) {
  return {{rows, cols},
          dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
          layout.layout == 'N' ? Dims{layout.ld, 1} : Dims{1, layout.ld}};
}

/// What a primitive multiplies, and what it adds to the result.
struct Kind {
  DType operands = DType::f32, result = DType::f32;
  bool biased = false, accumulate = false;
};

/// One item of a plan as a primitive. It is planned for the threads that there are when it is made, so make
/// it where it runs. oneDNN keeps primitives: making one again takes some microseconds.
class Matmul {
 public:
  Matmul(const GemmPlan& plan, const Layouts& layouts, const Kind& kind)
      : a_(describe(plan.m, plan.k, layouts.a, kind.operands)),
        b_(describe(plan.k, plan.n, layouts.b, kind.operands)),
        c_(describe(plan.m, plan.n, {'N', plan.c_row}, kind.result)) {
    if (kind.biased) bias_ = describe(1, plan.n, {'N', plan.n}, kind.result);
    dnnl::primitive_attr attributes = user_scratch();
    if (kind.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc({a_, b_, bias_, c_}, attributes, onednn_engine());
    scratch_ = static_cast<std::int64_t>(desc.scratchpad_desc().get_size());
    primitive_ = dnnl::matmul(desc);
  }

  void run(const void* a, const void* b, const void* bias, void* c) const {
    const auto scratch_floats = static_cast<std::size_t>(scratch_) / sizeof(float) + 1;
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory(a_, a)},
        {DNNL_ARG_WEIGHTS, memory(b_, b)},
        {DNNL_ARG_DST, memory(c_, c)},
        {DNNL_ARG_SCRATCHPAD, scratch_memory(thread_scratch(0, scratch_floats), scratch_)}};
    if (bias != nullptr) arguments[DNNL_ARG_BIAS] = memory(bias_, bias);
    dnnl::stream stream(onednn_engine());
    primitive_.execute(stream, arguments);
    stream.wait();
  }

 private:
  static dnnl::memory memory(const Desc& desc, const void* data) {
    return {desc, onednn_engine(), const_cast<void*>(data)};
  }

  Desc a_, b_, bias_, c_;
  std::int64_t scratch_ = 0;  // bytes
  dnnl::matmul primitive_;
};

// Whether the primitive can take them as the kernel says, but for the sums over a batch.
bool primitive_accepts(const GemmArgs& args, DType dtype) {
  return args.c.dtype == dtype && args.b.dtype == dtype && args.alpha == 1.0F &&
         (args.beta == 0.0F || args.beta == 1.0F) && has_blas_layouts(args);
}

bool accepts_bf16(const GemmArgs& args) {
  return primitive_accepts(args, DType::bf16) && onednn_has_bf16() &&
         GemmPlan(args).summed_count == 1;  // more would be rounded in between
}

// Where rounding pays. An element of a or b costs 0.11 to 0.15 ns, as much as 20 to 30 multiply-adds save;
// one of a takes part in n of them, one of b in m.
bool accepts_rounded(const GemmArgs& args) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20;  // multiply-adds, about 10 us of one core
  constexpr std::int64_t kPays = 32;
  if (matmul_precision() != MatmulPrecision::medium || !primitive_accepts(args, DType::f32) ||
      !onednn_has_bf16())
    return false;
  const GemmPlan plan(args);
  return plan.m * plan.n * plan.k >= kSmall && plan.m * plan.n >= kPays * (plan.m + plan.n);
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

// run(begin, end) for ranges of the plan's items.
template <class Run>
void for_items(const GemmPlan& plan, Run&& run) {
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    try {
      run(begin, end);
    } catch (const dnnl::error& error) {
      throw KernelError("gemm", std::string("oneDNN refused the matmul: ") + error.what());
    }
  });
}

void run_primitive(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  const DType dtype = args.c.dtype;
  const auto size = static_cast<std::int64_t>(byte_size(dtype));
  for_items(plan, [&](std::int64_t begin, std::int64_t end) {
    const Matmul matmul(plan, layouts, {dtype, dtype, static_cast<bool>(args.bias), args.beta != 0.0F});
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = plan.batch_offsets(i);
      matmul.run(plan.a_at<char>(at.a * size), plan.b_at<char>(at.b * size), args.bias.data,
                 plan.c_at<char>(at.c * size));
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
  for_items(plan, [&](std::int64_t begin, std::int64_t end) {
    Rounded a(1, plan.m, plan.k, layouts.a), b(2, plan.k, plan.n, layouts.b);
    const Layouts rounded{a.layout(), b.layout()};
    Kind kind{DType::bf16, DType::f32, static_cast<bool>(args.bias), args.beta != 0.0F};
    const Matmul first(plan, rounded, kind);
    kind.biased = false, kind.accumulate = true;
    const Matmul next = plan.summed_count > 1 ? Matmul(plan, rounded, kind) : first;
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
