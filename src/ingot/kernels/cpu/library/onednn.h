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

/// Attributes of a primitive that is given its scratch memory when it runs.
dnnl::primitive_attr user_scratch();

/// `bytes` at `data` as a primitive's scratch memory.
dnnl::memory scratch_memory(void* data, std::int64_t bytes);

}  // namespace ingot::kernels::cpu
