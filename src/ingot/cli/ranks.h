#pragma once

#include "ingot/base/parallel.h"
#include "ingot/dist/communicator.h"

namespace ingot::cli {

/// Does `work` as one of several processes of one program: an error of one ends all, and is told once.
/// Returns what `work` does.
int run_as_ranks(dist::Communicator& ranks, bool json, FunctionRef<int()> work);

}  // namespace ingot::cli
