#pragma once

#include <initializer_list>

#include "ingot/core/tensor.h"

namespace ingot {

/// What every op checks first: all tensors are defined, on one device and, with `same_dtype`, of one dtype.
/// Throws Error, DeviceMismatch or KernelError naming `op`.
void check_defined(const char* op, std::initializer_list<const Tensor*> tensors, bool same_dtype = true);

}  // namespace ingot
