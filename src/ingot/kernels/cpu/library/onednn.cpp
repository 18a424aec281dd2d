#include "ingot/kernels/cpu/library/onednn.h"

#include <dnnl.hpp>

namespace ingot::kernels::cpu {
namespace {

bool onednn_has(dnnl_cpu_isa_t isa) {
  const auto needed = static_cast<unsigned>(isa);  // a bit for each extension
  static const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (has & needed) == needed;
}

}  // namespace

bool onednn_has_bf16() { return onednn_has(dnnl_cpu_isa_avx512_core_bf16); }
bool onednn_has_avx512() { return onednn_has(dnnl_cpu_isa_avx512_core); }

dnnl::engine& onednn_engine() {
  // Never destroyed: threads may still hold primitives when static objects die.
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory scratch_memory(void* data, std::int64_t bytes) {
  return {{{bytes}, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a}, onednn_engine(), data};
}

}  // namespace ingot::kernels::cpu
