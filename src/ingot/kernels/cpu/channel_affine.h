#pragma once

#include "ingot/core/view.h"

namespace ingot::kernels::cpu {

/// y (+)= x·kx + z·kz + k0 with one factor of each kind per channel; x, y, z: [N, channels, positions],
/// contiguous and of one dtype; z may be absent.
struct ChannelAffine {
  View x, z;
  const float *kx = nullptr, *kz = nullptr, *k0 = nullptr;
  View y;
  bool accumulate = false;
};

}  // namespace ingot::kernels::cpu
