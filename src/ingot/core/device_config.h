#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/core/device.h"

namespace ingot {

/// Which device a program wants. CUDA is preferred; the CPU is the fallback.
struct DeviceConfig {
  std::int64_t cuda_device = 0;
  bool force_cpu = false;
  std::string program = "ingot";  ///< named in messages

  /// The settings of the environment. Per setting the first variable that is set wins: INGOT_FORCE_CPU,
  /// RUST_AI_FORCE_CPU, AXOLOTL_FORCE_CPU, VSA_OPTIM_FORCE_CPU, and the same prefixes with CUDA_DEVICE.
  static DeviceConfig from_env();
  /// Throws InvalidConfig for a device number that cannot be.
  void validate() const;
};

/// Says that this program was built to use GPUs, so that running on the CPU is worth a warning. initialize()
/// does so in builds with CUDA.
void expect_gpu();

/// The device that `config` asks for: the CUDA device when there is one, else the CPU. In a program
/// that expects a GPU, falling back to a CPU that nobody chose is said once per process, in the log (which
/// goes to stderr and to its file) or, where its level is above warnings, on stderr, with how to silence it.
/// Throws DeviceNotAvailable when CUDA devices exist but not the one asked for.
Device get_device(const DeviceConfig& config = DeviceConfig::from_env());

/// The device that a setting names: "cpu", "cuda", "cuda:1", or "auto": what get_device() finds. Throws
/// InvalidConfig for what is not a device, DeviceNotAvailable for one that is not here.
Device choose_device(std::string_view name);

}  // namespace ingot
