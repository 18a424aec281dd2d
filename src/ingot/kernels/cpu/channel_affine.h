#pragma once

#include <cstdint>

namespace ingot::kernels::cpu {

/// y (+)= x·kx + z·kz + k0 with one factor of each kind per channel, over [N, channels, places]; z may be
/// null.
struct ChannelAffine {
  const float *x = nullptr, *z = nullptr;
  const float *kx = nullptr, *kz = nullptr, *k0 = nullptr;
  float* y = nullptr;
  std::int64_t channels = 0, places = 0;
  bool accumulate = false;
};

}  // namespace ingot::kernels::cpu
