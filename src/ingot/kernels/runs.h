#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// Whether launch() would find an implementation for these arguments: of kernels that not every device has.
template <class Args>
bool runs(const Kernel<Args>& kernel, DeviceType device, const std::type_identity_t<Args>& args) {
  const int forced = forced_kind();
  for (const Implementation<Args>& one : kernel.implementations(device)) {
    if (forced >= 0 && static_cast<int>(one.kind) != forced) continue;
    if (one.needs > instruction_set_limit()) continue;
    if (one.accepts == nullptr || one.accepts(args)) return true;
  }
  return false;
}

}  // namespace ingot::kernels
