#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/torch_peer.h"
#include "ingot/benchmark/training_step.h"
#include "ingot/models/language/recompute.h"

namespace ingot::benchmark {

/// Adapters on all linear layers of a base that does not train.
struct LoraSetup {
  std::string base = "bf16";  ///< what the base's matrices are: a dtype, or quantized (QLoRA)
  std::int64_t rank = 16;
};

struct TrainingOptions {
  std::string shape = "gpt2";  ///< of shape_names(); weights are random
  std::string dtype = "f32", device = "cpu", optimizer = "adamw";
  StepBatches batches{.batch = 4, .sequence = 64, .count = 1};
  std::int64_t runs = 7;
  Recompute recompute = Recompute::none;
  std::optional<LoraSetup> lora{};  ///< none: all weights train
  bool graphs = false;              ///< the step is captured
  bool breakdown = false;
  TorchOptions torch{};
  std::string torch_weights = "f32";  ///< what PyTorch keeps weights, gradients and moments in
  bool apart = false;                 ///< PyTorch behind our steps, in the memory that they leave
};
/// Whole training steps, beside what matmuls alone reach.
Report time_training(const TrainingOptions& options);

}  // namespace ingot::benchmark
