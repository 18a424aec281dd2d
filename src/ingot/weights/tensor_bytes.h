#pragma once

#include <cstddef>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// Gives a tensor's values, row-major, to `take`, in one piece or several: as they lie where it is contiguous
/// on the CPU, else through a buffer of at most a few MiB.
void for_each_byte_range(const Tensor& tensor, FunctionRef<void(std::span<const std::byte>)> take);

}  // namespace ingot
