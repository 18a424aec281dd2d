#pragma once

#include <string>
#include <string_view>

/// NVIDIA's compiler for kernels at run time. Its library is looked for when it is first needed, so that the
/// binary starts without it; it compiles without a GPU.
namespace ingot::kernels::cuda::nvrtc {

/// Why there is no compiler ("libnvrtc.so.13: cannot open shared object file ..."); empty where there is one.
std::string problem();
/// "NVRTC 13.0"
std::string version();
/// Whether it compiles for GPUs of this compute capability, 90 for 9.0. Not without a compiler.
bool knows(int capability);
/// Why it cannot compile for `architecture` after all, found by trying; empty where it can. It opens
/// libraries of its own when it first compiles, which may be missing.
std::string trial(const std::string& architecture);
/// Machine code for `architecture` ("sm_90a") from CUDA C++. Throws KernelError(function, the compiler's
/// messages).
std::string compile(std::string_view source, const std::string& function, const std::string& architecture);

}  // namespace ingot::kernels::cuda::nvrtc
