#pragma once

#include <string>

#include "ingot/base/error.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cpu {

/// The table row of token (b, s); throws where the table has none.
inline std::int64_t rope_position(const RopeAngles& angles, std::int64_t b, std::int64_t s) {
  std::int64_t position = angles.offset + s;
  if (angles.positions) {
    const std::int64_t at = b * angles.positions.stride(0) + s * angles.positions.stride(1);
    position = angles.positions.dtype == DType::i64 ? angles.positions.as<std::int64_t>()[at]
                                                    : angles.positions.as<std::int32_t>()[at];
  }
  INGOT_CHECK(position >= 0 && position < angles.cos.dim(0),
              KernelError("rope", "position " + std::to_string(position) + " of token " + std::to_string(s) +
                                      " in sequence " + std::to_string(b) + " is outside the table of " +
                                      std::to_string(angles.cos.dim(0)) + " positions; build a longer one"));
  return position;
}

}  // namespace ingot::kernels::cpu
