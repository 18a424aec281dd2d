#include "ingot/kernels/dry_run.h"

namespace ingot::kernels {
namespace {

std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

DeviceProfile DeviceProfile::of(Device device) {
  return {backend(device).capabilities(), kernel_traits(device)};
}

DeviceProfile DeviceProfile::of_gpu(std::size_t memory) {
  constexpr int kMultiprocessors = 132;
  return {{.device_name = "GPU",
           .total_memory = memory,
           .compute_units = kMultiprocessors,
           .fuses_projections = true,
           .matmul_alignment = 64},
          {}};
}

DryRun::DryRun(const DeviceProfile& like) : alone_(one_at_a_time()) {
  set_kernel_traits(DeviceType::meta, like.traits);
  set_meta_backend(&like.capabilities);
}

DryRun::~DryRun() { set_meta_backend(nullptr); }

MemoryTracker& DryRun::memory() const { return backend(kMeta).memory(); }

}  // namespace ingot::kernels
