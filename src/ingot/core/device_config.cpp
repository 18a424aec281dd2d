#include "ingot/core/device_config.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/core/backend.h"
#include "ingot/core/device.h"

namespace ingot {
namespace {

std::atomic<bool> gpu_expected{false};

// Whatever the log's level is: a run of hours on the wrong device is what this is about.
void warn_of_cpu(const std::string& message) {
  static std::once_flag once;
  std::call_once(once, [&] {
    if (log_enabled(LogLevel::warn)) {
      log(LogLevel::warn, "ingot::device", message);
    } else {
      std::fprintf(stderr, "%s\n", message.c_str());
    }
  });
}

}  // namespace

DeviceConfig DeviceConfig::from_env() {
  DeviceConfig config;
  // Environment: INGOT_FORCE_CPU=1, INGOT_CUDA_DEVICE=N | no GPU; the GPU that `auto` means
  config.force_cpu = env_flag("FORCE_CPU").value_or(false);
  config.cuda_device = env_int("CUDA_DEVICE", 0, 127).value_or(0);
  return config;
}

void DeviceConfig::validate() const {
  INGOT_CHECK(cuda_device >= 0 && cuda_device <= 127,
              InvalidConfig("cuda_device", "must be from 0 to 127, got " + std::to_string(cuda_device)));
}

void expect_gpu() { gpu_expected = true; }

Device get_device(const DeviceConfig& config) {
  config.validate();
  if (config.force_cpu) return kCpu;
  const BackendRegistry& registry = BackendRegistry::instance();
  const Device wanted{DeviceType::cuda, static_cast<std::int8_t>(config.cuda_device)};
  if (registry.find(wanted) != nullptr) return wanted;
  if (registry.has(DeviceType::cuda))
    return registry.get(wanted).device();  // throws, with the devices there are
  if (!gpu_expected) return kCpu;
  warn_of_cpu(config.program + ": no CUDA device found (" + registry.why_missing(DeviceType::cuda) +
              "), running on the CPU. Set INGOT_FORCE_CPU=1 to choose the CPU and silence this warning.");
  return kCpu;
}

Device choose_device(std::string_view name) {
  return name == "auto" ? get_device() : backend(parse_device(name)).device();
}

}  // namespace ingot
