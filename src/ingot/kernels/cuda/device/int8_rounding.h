#pragma once

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/quantized.h"

namespace ingot::kernels::cuda {

/// How numbers with one scale are rounded to int8, by the rules of quantize_activations.
struct Int8Rounding {
  float scale, inverse;  // an inverse of 0 where all codes are

  __device__ Int8Rounding(float top, bool finite)
      : scale(!finite           ? NAN
              : top < kLeastTop ? 0.0F
                                : top / 127.0F),
        inverse(finite && top >= kLeastTop ? 127.0F / top : 0.0F) {}

  /// Of x[0..n), which every thread of a warp calls.
  template <class T>
  static __device__ Int8Rounding of_row(const T* x, std::int64_t n) {
    using Warp = ThreadGroup<kWarp>;
    float top = 0;
    int good = 1;
    for (std::int64_t i = Warp::lane(); i < n; i += kWarp) {
      const float value = fabsf(to_float(x[i]));
      if (!(value < INFINITY)) good = 0;  // a NaN is not less
      top = fmaxf(top, value);
    }
    const bool finite = __all_sync(kAllLanes, good) != 0;
    return {Warp::max(top), finite};
  }

  __device__ int code(float x) const {
    if (inverse == 0.0F) return 0;
    const float scaled = rintf(x * inverse);
    return static_cast<int>(scaled < -127.0F ? -127.0F : scaled > 127.0F ? 127.0F : scaled);
  }
};

}  // namespace ingot::kernels::cuda
