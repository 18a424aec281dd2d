#pragma once

#include <bit>
#include <cstdint>

#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/device/fp8.h"

namespace ingot::kernels::cuda {

template <class T>
unsigned pair_of(float first, float second) {
  return std::bit_cast<std::uint16_t>(T(first)) | unsigned{std::bit_cast<std::uint16_t>(T(second))} << 16;
}

inline float half_of(unsigned pair, int half) {
  return to_float(std::bit_cast<half_t>(static_cast<std::uint16_t>(half == 0 ? pair : pair >> 16)));
}

template <class T, int count>
float greatest_of(const unsigned (&pairs)[count]) {
  const auto value = [&](int i) {
    return to_float(std::bit_cast<T>(static_cast<std::uint16_t>(pairs[i / 2] >> 16 * (i % 2))));
  };
  float top = value(0);
  for (int i = 1; i < 2 * count; ++i) top = fmaxf(top, value(i));
  return top;
}

inline void keep_register(unsigned& /*pair*/) {}

inline Vector<float, 2> e4m3_pair(unsigned codes) {
  return {{to_float(e4m3_t{static_cast<std::uint8_t>(codes)}),
           to_float(e4m3_t{static_cast<std::uint8_t>(codes >> 16)})}};
}

}  // namespace ingot::kernels::cuda
