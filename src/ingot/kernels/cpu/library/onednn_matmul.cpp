#include "ingot/kernels/cpu/library/onednn_matmul.h"

#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::size_t kScratch = 4;  // a slot that those who multiply leave free

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

Desc describe(std::int64_t rows, std::int64_t cols, Matrix layout, DType dtype) {
  return {{rows, cols},
          dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
          layout.layout == 'N' ? Dims{layout.ld, 1} : Dims{1, layout.ld}};
}

dnnl::memory memory_of(const Desc& desc, const void* data) {
  return {desc, onednn_engine(), const_cast<void*>(data)};
}

[[noreturn]] void refuse(const dnnl::error& error) {
  throw KernelError("gemm", std::string("oneDNN refused the matmul: ") + error.what());
}

}  // namespace

struct OnednnMatmul::Planned {
  Planned(const Size& size, const Strides& strides, const Kind& kind)
      : a(describe(size.m, size.k, strides.a, kind.operands)),
        b(describe(size.k, size.n, strides.b, kind.operands)),
        c(describe(size.m, size.n, {'N', strides.c}, kind.result)) {
    if (kind.biased) bias = describe(1, size.n, {'N', size.n}, kind.result);
    dnnl::primitive_attr attributes = user_scratch();
    if (kind.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc({a, b, bias, c}, attributes, onednn_engine());
    scratch = static_cast<std::int64_t>(desc.scratchpad_desc().get_size());
    primitive = dnnl::matmul(desc);
  }

  Desc a, b, c, bias;
  std::int64_t scratch = 0;  // bytes
  dnnl::matmul primitive;
};

OnednnMatmul::OnednnMatmul(const Size& size, const Strides& strides, const Kind& kind) {
  try {
    planned_ = std::make_shared<const Planned>(size, strides, kind);
  } catch (const dnnl::error& error) {
    refuse(error);
  }
}

void OnednnMatmul::run(const void* a, const void* b, const void* bias, void* c) const {
  const Planned& p = *planned_;
  try {
    const auto scratch_floats = static_cast<std::size_t>(p.scratch) / sizeof(float) + 1;
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory_of(p.a, a)},
        {DNNL_ARG_WEIGHTS, memory_of(p.b, b)},
        {DNNL_ARG_DST, memory_of(p.c, c)},
        {DNNL_ARG_SCRATCHPAD, scratch_memory(thread_scratch(kScratch, scratch_floats), p.scratch)}};
    if (bias != nullptr) arguments[DNNL_ARG_BIAS] = memory_of(p.bias, bias);
    dnnl::stream stream(onednn_engine());
    p.primitive.execute(stream, arguments);
    stream.wait();
  } catch (const dnnl::error& error) {
    refuse(error);
  }
}

}  // namespace ingot::kernels::cpu
