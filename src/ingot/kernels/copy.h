#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// y = x, or y += x with `accumulate`, with conversion from x.dtype to y.dtype. Same shape, any strides (an
/// axis of stride 0 repeats; y has none). Floats convert through f32 (f64 where one is f64) and round to
/// nearest even; to integers they truncate (NaN, and what
/// the type does not hold, become any number); to bool, anything but 0 is true.
struct CopyArgs {
  View x, y;
  bool accumulate = false;
};
inline Kernel<CopyArgs> copy("copy");

}  // namespace ingot::kernels
