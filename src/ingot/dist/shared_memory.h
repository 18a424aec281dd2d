#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ingot/dist/communicator.h"

namespace ingot::dist {

/// What ranks of one machine do through memory that they share, for messages of a few kilobytes that come
/// many thousand times a second: sums (in the order of ranks, so that all have the same bits), broadcasts and
/// gathers. A rank that waits spins for half a millisecond, where ranks have a processor each, and then
/// sleeps. Everything else goes to `base`, which has to outlive it. Time-outs and errors are those of `base`.
/// Null where `base` has no shared memory. All ranks call it.
std::unique_ptr<Communicator> over_shared_memory(Communicator& base);

}  // namespace ingot::dist
