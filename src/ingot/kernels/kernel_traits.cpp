#include "ingot/kernels/kernel_traits.h"

#include <array>
#include <cstddef>

namespace ingot::kernels {
namespace {

std::array<KernelTraits, kMostDeviceTypes>& table() {
  static std::array<KernelTraits, kMostDeviceTypes> traits{};
  return traits;
}

}  // namespace

const KernelTraits& kernel_traits(Device device) { return table()[static_cast<std::size_t>(device.type)]; }

void set_kernel_traits(DeviceType type, const KernelTraits& traits) {
  table()[static_cast<std::size_t>(type)] = traits;
}

}  // namespace ingot::kernels
