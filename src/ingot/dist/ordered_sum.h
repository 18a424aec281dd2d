#pragma once

#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/dist/communicator.h"

namespace ingot::dist {

/// Puts the sum of every rank's `values`, contiguous and of one shape and dtype, into `total` of every rank:
/// added in the order of ranks and rounded to the dtype each time, as one process does that adds one after
/// the other. Ranks with contributes[rank] false are passed over; the vector is the same on all ranks, and
/// one of them contributes. With `add` the sum begins from what `total` holds. `total` may be `values`,
/// without `add`.
///
/// Each rank adds up one slice of all: an all-to-all and an all-gather, each of the size of `values`.
void ordered_sum(Communicator& communicator, const Tensor& values, const std::vector<bool>& contributes,
                 const Tensor& total, bool add);

}  // namespace ingot::dist
