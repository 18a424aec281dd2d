#pragma once

#include <cstdint>
#include <span>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/ops/reduce.h"

// Whole numbers beyond the 53 bits that f64 holds: computed in 64 bits, where they wrap.

namespace ingot::onnx {

class OpCall;

/// f of the elements of each reduced line, in order. `axes` are not negative; none: all. The result has x's
/// dtype.
Tensor reduce_whole(const Tensor& x, const Axes& axes, bool keep,
                    FunctionRef<std::int64_t(std::span<const std::int64_t>)> f);

/// Whether the first input is of unsigned numbers of 16 to 64 bits. What else Ingot only holds is refused.
bool takes_unsigned(const OpCall& call);

std::int64_t sum_whole(std::span<const std::int64_t> line);

/// As matmul: [..., m, k] x [..., k, n] with the batch broadcast; a vector is a row on the left, a column on
/// the right. The result has a's dtype. DimensionMismatch where they do not fit.
Tensor matmul_whole(const Tensor& a, const Tensor& b);

}  // namespace ingot::onnx
