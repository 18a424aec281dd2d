#pragma once

#include <cstdint>

#include "ingot/autograd/node.h"
#include "ingot/kernels/rope.h"
#include "ingot/ops/rope.h"

// What the ops and nodes of rotated heads share.
namespace ingot {

/// How the kernels rotate x: [B, S, H, D].
kernels::RopeAngles angles_of(const View& x, const View& cos, const View& sin, const RopeOptions& options);
/// Of q and k in one launch.
kernels::RopeAngles angles_of_pair(const View& q, const View& k, const RopeTable& table,
                                   const RopeOptions& options);

/// For what outlives the call and keeps the positions as a SavedTensor.
RopeOptions without_positions(RopeOptions options);

/// What rotated heads keep for the way back.
struct SavedAngles {
  SavedTensor cos, sin, positions;
  RopeOptions options;
  SavedAngles(const RopeTable& table, const RopeOptions& options);
  kernels::RopeAngles of(const View& x) const;
};

/// What the kernels take of the input: x itself where the elements of a head are adjacent, or else a copy.
/// Throws as rope() says, naming `op`.
Tensor checked_heads(const char* op, const Tensor& x, const RopeTable& table, const RopeOptions& options);
/// Throws ShapeMismatch unless q and k differ in their numbers of heads only.
void check_pair(const char* op, const Tensor& q, const Tensor& k);

}  // namespace ingot
