#pragma once

#include <string>

#include "ingot/kernels/pointwise.h"

namespace ingot::kernels::cuda {

/// The name of the function in pointwise_source().
inline constexpr const char* kPointwiseFunction = "ingot_pointwise";

/// CUDA C++ of the chain for `inputs` inputs of `dtype`: ingot_pointwise(x0, x1, ..., y, n), whose operands
/// are aligned to 16 bytes. The same chain gives the same text.
std::string pointwise_source(std::span<const PointwiseStep> steps, std::size_t inputs, DType dtype,
                             bool accumulate);

}  // namespace ingot::kernels::cuda
