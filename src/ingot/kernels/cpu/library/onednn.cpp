#include "ingot/kernels/cpu/library/onednn.h"

#include <dnnl.hpp>

namespace ingot::kernels::cpu {

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
