#pragma once

#include "ingot/base/parallel.h"
#include "ingot/cli/inference.h"
#include "ingot/dist/communicator.h"

namespace ingot::cli {

/// Does `work` as one of several processes of one program: an error of one ends all, and is told once.
/// Returns what `work` does.
int run_as_ranks(dist::Communicator& ranks, bool json, FunctionRef<int()> work);

/// Does `work` with a model that tensor_parallel_size ranks have together: the first rank works, the others
/// follow (infer/tensor_parallel.h) until it has ended. `session` finds the model on each. InvalidConfig
/// where a launcher started another number of processes.
int run_with_model(const InferenceOptions& options, bool json, FunctionRef<infer::SessionOptions()> session,
                   FunctionRef<int(const infer::SessionOptions&)> work);

}  // namespace ingot::cli
