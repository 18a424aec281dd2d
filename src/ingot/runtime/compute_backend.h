#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// One choice of what computes: "cpu" (plain instructions), "cpu-avx2", "cpu-avx512", "cpu-vnni",
/// "cpu-bf16", "cpu-amx", "cuda". Each of the CPU's has what those before it have; "auto" is the best that is
/// available.
struct ComputeBackendChoice {
  std::string name;
  bool available = false;
  std::string detail;  ///< what it is, or why it is not available
};
std::vector<ComputeBackendChoice> compute_backends();

/// Chooses by name, for all threads; call it before the first computation, since oneDNN keeps the instruction
/// set that it started with. InvalidConfig for a name that is none, DeviceNotAvailable for what this machine
/// or this build lacks. The environment variable INGOT_BACKEND does the same at initialize().
void set_compute_backend(std::string_view name);
/// The name that is in use, never "auto".
std::string compute_backend();
/// The name that "auto" stands for here.
std::string auto_detect_backend();
/// The best of the CPU's, whatever else there is.
void enable_best_cpu();

}  // namespace ingot
