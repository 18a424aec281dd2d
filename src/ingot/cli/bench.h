#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/torch_peer.h"
#include "ingot/cli/command.h"

namespace ingot::cli {

/// `ingot bench decode`, `prefill` and `matmul`.
void add_bench_inference(Command& bench);
/// `ingot bench train` and `finetune`.
void add_bench_training(Command& bench);
void add_bench_policy(Command& bench);
/// `ingot bench selfplay`.
void add_bench_selfplay(Command& bench);
void add_bench_matmul(Command& bench);
/// `ingot bench kernels`.
void add_bench_kernels(Command& bench);
/// `ingot bench step-matmuls`.
void add_bench_step_matmuls(Command& bench);
/// `ingot bench serve`.
void add_bench_serve(Command& bench);

/// --against and --python of those that take turns with PyTorch.
void add_torch_options(Command& command, benchmark::TorchOptions& options);
/// InvalidConfig for an option that is not at least 1.
void check_positive(std::initializer_list<std::pair<const char*, std::int64_t>> options);
/// Prints what was found; the exit code.
int show(const benchmark::Report& report, bool json);

}  // namespace ingot::cli
