#pragma once

#include "ingot/cli/command.h"

namespace ingot::cli {

// The verbs below `bench`; each stands in a file of its own.
void add_bench_inference(Command& bench);
void add_bench_policy(Command& bench);

}  // namespace ingot::cli
