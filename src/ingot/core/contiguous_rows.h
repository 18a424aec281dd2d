#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"

namespace ingot {

/// Tensors that are contiguous in one block of memory as the one tensor, longer on its first axis,
/// that they are together: contiguous, of one dtype, equal but for their first axis. Without autograd data.
/// Undefined where they lie elsewhere, or differ.
Tensor contiguous_rows(std::span<const Tensor> pieces);

/// The reverse: views of the contiguous `whole`, of so many of its first axis each.
std::vector<Tensor> split_rows(const Tensor& whole, std::span<const std::int64_t> rows);

}  // namespace ingot
