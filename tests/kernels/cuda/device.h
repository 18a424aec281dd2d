#pragma once

#include "tests/support/op_case.h"

#include "ingot/core/tensor.h"

namespace ingot::test {

/// The card that tests of the CUDA leaf run on: a real one, or the emulated one.
inline constexpr Device kDevice{DeviceType::cuda, 0};

/// The largest magnitude, which an error is set against.
inline double largest(const Tensor& x) {
  return testing::max_error(x, Tensor::zeros(x.shape(), x.dtype(), x.device()));
}

}  // namespace ingot::test
