#pragma once

#include "ingot/cli/command.h"

namespace ingot::cli {

/// `ingot bench decode`, `prefill` and `matmul`.
void add_bench_inference(Command& bench);
void add_bench_policy(Command& bench);
void add_bench_matmul(Command& bench);

/// Of a clock that only goes forward.
double seconds();
/// Bytes per second that all threads read of a block of `bytes` together: what decoding cannot exceed.
double read_bandwidth(double bytes);

}  // namespace ingot::cli
