// Products of bf16 matrices through oneDNN, with the processor's dot products of bf16 (VDPBF16PS, AMX): sums
// in f32, rounded once. These instructions take subnormal numbers for 0.
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

Desc describe(std::int64_t rows, std::int64_t cols, Matrix layout) {
  return {{rows, cols},
          dnnl::memory::data_type::bf16,
          layout.layout == 'N' ? Dims{layout.ld, 1} : Dims{1, layout.ld}};
}

/// One item of a plan as a primitive. It is planned for the threads that there are when it is made, so make
/// it where it runs. oneDNN keeps primitives: making one again takes some microseconds.
class Product {
 public:
  Product(const GemmPlan& plan, const Layouts& layouts, bool biased, bool accumulate)
      : a_(describe(plan.m, plan.k, layouts.a)),
        b_(describe(plan.k, plan.n, layouts.b)),
        c_(describe(plan.m, plan.n, {'N', plan.c_row})) {
    if (biased) bias_ = describe(1, plan.n, {'N', plan.n});
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

// oneDNN may be limited from outside (ONEDNN_MAX_CPU_ISA); without the instructions it emulates them, slowly.
bool onednn_has_bf16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);  // a bit for each extension
  static const bool has = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kNeeded) == kNeeded;
  return has;
}

bool accepts(const GemmArgs& args) {
  if (args.c.dtype != DType::bf16 || args.b.dtype != DType::bf16 || args.alpha != 1.0F) return false;
  if ((args.beta != 0.0F && args.beta != 1.0F) || !has_blas_layouts(args) || !onednn_has_bf16()) return false;
  return GemmPlan(args).summed_count == 1;  // more would be rounded in between
}

void run_bf16(const GemmArgs& args, Stream) {
  GemmPlan plan(args);
  Layouts layouts;
  find_layouts(plan, layouts);
  for_item_ranges(plan, [&](std::int64_t begin, std::int64_t end) {
    try {
      const Product product(plan, layouts, static_cast<bool>(args.bias), args.beta != 0.0F);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = plan.batch_offsets(i);
        product.run(plan.a_at<bf16>(at.a), plan.b_at<bf16>(at.b), args.bias.data, plan.c_at<bf16>(at.c));
      }
    } catch (const dnnl::error& error) {
      throw KernelError("gemm", std::string("oneDNN refused the product: ") + error.what());
    }
  });
}

}  // namespace

void register_gemm_bf16() {
  gemm.add(DeviceType::cpu,
           {"onednn_bf16", ImplKind::library, accepts, run_bf16, InstructionSet::avx512_bf16});
}

}  // namespace ingot::kernels::cpu
