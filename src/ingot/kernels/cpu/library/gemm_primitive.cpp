// Products through oneDNN's matmul primitive: of bf16 matrices with the processor's dot products (VDPBF16PS,
// AMX; sums in f32, rounded once; these instructions take subnormal numbers for 0), and of f32 ones where it
// is faster than sgemm.
#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/library/gemm_layout.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

Desc describe(std::int64_t rows, std::int64_t cols, Matrix layout, DType dtype) {
  return {{rows, cols},
          dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
          layout.layout == 'N' ? Dims{layout.ld, 1} : Dims{1, layout.ld}};
}

/// One item of a plan as a primitive. It is planned for the threads that there are when it is made, so make
/// it where it runs. oneDNN keeps primitives: making one again takes some microseconds.
class Product {
 public:
  Product(const GemmPlan& plan, const Layouts& layouts, DType dtype, bool biased, bool accumulate)
      : a_(describe(plan.m, plan.k, layouts.a, dtype)),
        b_(describe(plan.k, plan.n, layouts.b, dtype)),
        c_(describe(plan.m, plan.n, {'N', plan.c_row}, dtype)) {
    if (biased) bias_ = describe(1, plan.n, {'N', plan.n}, dtype);
    dnnl::primitive_attr attributes = user_scratch();
    if (accumulate) {
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

// oneDNN may be limited from outside (ONEDNN_MAX_CPU_ISA).
bool onednn_has(dnnl_cpu_isa_t isa) {
  const auto needed = static_cast<unsigned>(isa);  // a bit for each extension
  static const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (has & needed) == needed;
}

// Whether the primitive can take them as the kernel says.
bool primitive_accepts(const GemmArgs& args, DType dtype) {
  return args.c.dtype == dtype && args.b.dtype == dtype && args.alpha == 1.0F &&
         (args.beta == 0.0F || args.beta == 1.0F) && has_blas_layouts(args) &&
         GemmPlan(args).summed_count == 1;  // more would be rounded in between
}

// Without the instructions oneDNN emulates them, slowly.
bool accepts_bf16(const GemmArgs& args) {
  return primitive_accepts(args, DType::bf16) && onednn_has(dnnl_cpu_isa_avx512_core_bf16);
}

// sgemm packs a transposed b slowly: forward products of linear layers. Small ones are not worth a primitive.
bool accepts_transposed(const GemmArgs& args) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 21;  // multiply-adds, about 25 µs
  if (!primitive_accepts(args, DType::f32) || !onednn_has(dnnl_cpu_isa_avx512_core)) return false;
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  return plan.batch_count == 1 && layouts.a.layout == 'N' && layouts.b.layout == 'T' &&
         plan.m * plan.n * plan.k >= kSmall;
}

void run_primitive(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  const auto size = static_cast<std::int64_t>(byte_size(args.c.dtype));
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    try {
      const Product product(plan, layouts, args.c.dtype, static_cast<bool>(args.bias), args.beta != 0.0F);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = plan.batch_offsets(i);
        product.run(plan.a_at<char>(at.a * size), plan.b_at<char>(at.b * size), args.bias.data,
                    plan.c_at<char>(at.c * size));
      }
    } catch (const dnnl::error& error) {
      throw KernelError("gemm", std::string("oneDNN refused the product: ") + error.what());
    }
  });
}

}  // namespace

void register_gemm_primitive() {
  gemm.add(DeviceType::cpu,
           {"onednn_bf16", ImplKind::library, accepts_bf16, run_primitive, InstructionSet::avx512_bf16});
  gemm.add(DeviceType::cpu, {"onednn_transposed", ImplKind::library, accepts_transposed, run_primitive,
                             InstructionSet::avx512});
}

}  // namespace ingot::kernels::cpu
