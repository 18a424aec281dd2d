#pragma once

#include <cstdint>

#include "ingot/nn/linear_weight.h"

namespace ingot {

/// A table [rows, ...] with more rows, each the mean of those that are there, as transformers starts new
/// tokens.
Tensor with_mean_rows(const Tensor& table, std::int64_t rows);
/// The same of a weight [out, in]. A quantized one becomes dense, in `dtype`.
void grow_rows(LinearWeight& weight, std::int64_t rows, DType dtype);

}  // namespace ingot
