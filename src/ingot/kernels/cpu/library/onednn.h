#pragma once

#include <cstdint>

namespace dnnl {
struct engine;
struct memory;
struct primitive_attr;
}  // namespace dnnl

namespace ingot::kernels::cpu {

/// oneDNN's engine for this processor; made on first use.
dnnl::engine& onednn_engine();

/// Whether oneDNN multiplies bf16 with the processor's own dot products; without them it emulates them,
/// slowly. It may be limited from outside (ONEDNN_MAX_CPU_ISA).
bool onednn_has_bf16();
/// The same of AVX-512.
bool onednn_has_avx512();

/// Attributes of a primitive that is given its scratch memory when it runs.
dnnl::primitive_attr user_scratch();

/// `bytes` at `data` as a primitive's scratch memory.
dnnl::memory scratch_memory(void* data, std::int64_t bytes);

}  // namespace ingot::kernels::cpu
