#include "ingot/kernels/cpu/instruction_set.h"

#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>

namespace ingot::kernels::cpu {

bool use_instruction_set(InstructionSet limit) {
  limit_instruction_set(limit);
  std::int64_t disabled = 0;
  dnnl_cpu_isa_t isa = dnnl_cpu_isa_all;
  if (limit < InstructionSet::avx512) {
    disabled |= HWY_AVX3 | HWY_AVX3_DL;
    isa = dnnl_cpu_isa_avx2;
  } else if (limit < InstructionSet::avx512_vnni) {
    disabled |= HWY_AVX3_DL;
    isa = dnnl_cpu_isa_avx512_core;
  } else if (limit < InstructionSet::avx512_bf16) {
    isa = dnnl_cpu_isa_avx512_core_vnni;
  }
  if (limit < InstructionSet::avx2) {
    disabled |= HWY_AVX2;
    isa = dnnl_cpu_isa_sse41;
  }
  hwy::DisableTargets(disabled);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return dnnl_set_max_cpu_isa(isa) == dnnl_success || limit >= default_instruction_set();
}

}  // namespace ingot::kernels::cpu
