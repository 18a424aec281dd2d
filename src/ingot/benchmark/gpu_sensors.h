#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ingot::benchmark {

/// What a GPU says of itself, by NVIDIA's management library (libnvidia-ml.so.1, which comes with the
/// driver). Without that library, or a GPU at the address, there are no readings.
class GpuSensors {
 public:
  /// BackendCapabilities::pci_address: the library numbers GPUs in another order than CUDA does, and also
  /// those that CUDA_VISIBLE_DEVICES hides.
  explicit GpuSensors(const std::string& pci_address);

  struct Reading {
    double sm_mhz = 0;  ///< clock of the multiprocessors now
    double watts = 0;   ///< drawn; since Ampere, but for the A100, the driver gives the mean of a second
  };
  std::optional<Reading> read() const;
  /// What the GPU may draw.
  std::optional<double> limit_watts() const;

 private:
  void* gpu_ = nullptr;  // the library's handle
};

}  // namespace ingot::benchmark
