#pragma once

#include <cstdint>

#include "ingot/core/tensor.h"

namespace ingot {

enum class PadMode : std::uint8_t {
  zeros,
  circular,  ///< goes on at the other end
  edge,      ///< repeats the first and the last element
};

/// x with `before` and `after` more elements on one axis. Negative axes count from the last. Throws
/// DimensionMismatch for an axis that is not there, negative sizes, nothing to repeat, and, when circular,
/// for more elements than the axis has.
Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after, PadMode mode = PadMode::zeros);

}  // namespace ingot
