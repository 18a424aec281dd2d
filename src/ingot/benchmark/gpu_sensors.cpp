#include "ingot/benchmark/gpu_sensors.h"

#include <array>

#include "ingot/base/shared_library.h"

namespace ingot::benchmark {
namespace {

// As nvml.h declares them, whose handles are pointers and whose results are 0 where all is well.
constexpr int kSuccess = 0, kSmClock = 1;
struct Nvml {
  SharedLibrary library{std::array{std::string("libnvidia-ml.so.1")}};
  int (*init)() = nullptr;
  int (*gpu_at)(const char* pci_address, void** gpu) = nullptr;
  int (*clock)(void* gpu, int which, unsigned* mhz) = nullptr;
  int (*power)(void* gpu, unsigned* milliwatts) = nullptr;
  int (*power_limit)(void* gpu, unsigned* milliwatts) = nullptr;
  bool ready = false;

  Nvml() {
    library.find(init, "nvmlInit_v2");
    library.find(gpu_at, "nvmlDeviceGetHandleByPciBusId_v2");
    library.find(clock, "nvmlDeviceGetClockInfo");
    library.find(power, "nvmlDeviceGetPowerUsage");
    library.find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    ready = library.problem().empty() && init() == kSuccess;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

}  // namespace

GpuSensors::GpuSensors(const std::string& pci_address) {
  if (pci_address.empty() || !nvml().ready) return;
  if (nvml().gpu_at(pci_address.c_str(), &gpu_) != kSuccess) gpu_ = nullptr;
}

std::optional<GpuSensors::Reading> GpuSensors::read() const {
  unsigned mhz = 0, milliwatts = 0;
  if (gpu_ == nullptr || nvml().clock(gpu_, kSmClock, &mhz) != kSuccess ||
      nvml().power(gpu_, &milliwatts) != kSuccess)
    return {};
  return Reading{.sm_mhz = static_cast<double>(mhz), .watts = milliwatts * 1e-3};
}

std::optional<double> GpuSensors::limit_watts() const {
  unsigned milliwatts = 0;
  if (gpu_ == nullptr || nvml().power_limit(gpu_, &milliwatts) != kSuccess) return {};
  return milliwatts * 1e-3;
}

}  // namespace ingot::benchmark
