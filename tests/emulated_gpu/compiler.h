#pragma once

#include <string>

namespace ingot::kernels::cuda::emulation {

/// Where the sources are that a kernel from source is compiled with, by the host's compiler: the repository's
/// root. Before the first call there is no compiler.
void compile_in(std::string source_root);

}  // namespace ingot::kernels::cuda::emulation
