#pragma once

#include <mutex>

#include "ingot/core/backend.h"
#include "ingot/core/meta_backend.h"
#include "ingot/kernels/kernel_traits.h"

namespace ingot::kernels {

/// What operations ask of a device before they allocate and launch.
struct DeviceProfile {
  BackendCapabilities capabilities;
  KernelTraits traits;

  static DeviceProfile of(Device device);
  /// A GPU with so many bytes of memory, which need not be here.
  static DeviceProfile of_gpu(std::size_t memory);
};

/// While it lives, what runs on kMeta allocates as on a device of that profile, and launches kernels that do
/// nothing: memory() tells what it would take, a LaunchObserver what it would compute. Host reads give 0.
/// One at a time in a process: a second waits for the first.
///
///     DryRun run(DeviceProfile::of(kCpu));
///     MetaSource shapes(DType::bf16);
///     LanguageModel model(config, shapes);
///     backward(model.loss(input, targets));
///     run.memory().peak();
class DryRun {
 public:
  explicit DryRun(const DeviceProfile& like);
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;
  MemoryTracker& memory() const;

 private:
  std::unique_lock<std::mutex> alone_;
};

}  // namespace ingot::kernels
