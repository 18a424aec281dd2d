#include "ingot/ops/pad.h"

#include <string>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/ops/common.h"
#include "ingot/ops/view.h"

namespace ingot {

Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after, PadMode mode) {
  const OpScope op_scope("pad", {&x});
  INGOT_CHECK(
      axis >= -x.rank() && axis < x.rank(),
      DimensionMismatch("pad: there is no axis " + std::to_string(axis) + " in " + to_string(x.shape())));
  INGOT_CHECK(before >= 0 && after >= 0, DimensionMismatch("pad: " + std::to_string(before) + " and " +
                                                           std::to_string(after) + " must not be negative"));
  const int at = axis < 0 ? axis + x.rank() : axis;
  const std::int64_t size = x.dim(at);
  INGOT_CHECK(mode == PadMode::zeros || before + after == 0 || size > 0,
              DimensionMismatch("pad: axis " + std::to_string(at) + " of " + to_string(x.shape()) +
                                " has nothing to repeat"));
  INGOT_CHECK(mode != PadMode::circular || (before <= size && after <= size),
              DimensionMismatch("pad: " + std::to_string(before) + " and " + std::to_string(after) +
                                " go around axis " + std::to_string(at) + " of " + to_string(x.shape()) +
                                " more than once"));
  const auto piece = [&](std::int64_t count, bool front) {
    if (mode == PadMode::zeros) return Tensor::zeros(x.shape().with(at, count), x.dtype(), x.device());
    if (mode == PadMode::circular)
      return front ? narrow(x, at, size - count, count) : narrow(x, at, 0, count);
    return broadcast_to(narrow(x, at, front ? 0 : size - 1, 1), x.shape().with(at, count));
  };
  std::vector<Tensor> pieces;
  if (before > 0) pieces.push_back(piece(before, true));
  pieces.push_back(x);
  if (after > 0) pieces.push_back(piece(after, false));
  return pieces.size() == 1 ? x : concat(pieces, at);
}

}  // namespace ingot
