#pragma once

#include "tests/support/op_case.h"

#include "ingot/core/tensor.h"
#include "ingot/kernels/kernel.h"

namespace ingot::test {

/// The GPU that tests of the CUDA backend run on: a real one, or the emulated one.
inline constexpr Device kDevice{DeviceType::cuda, 0};

/// The largest magnitude, which an error is set against.
inline double largest(const Tensor& x) {
  return testing::max_error(x, Tensor::zeros(x.shape(), x.dtype(), x.device()));
}

/// Whether a library of the GPU's maker comes before our own implementations: never on the emulated GPU.
template <class Args>
bool library_comes_first(const kernels::Kernel<Args>& kernel) {
  return kernel.implementations(DeviceType::cuda).front().kind == kernels::ImplKind::library;
}

}  // namespace ingot::test
