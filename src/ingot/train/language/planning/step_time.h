#pragma once

#include <string>

#include "ingot/train/language/config.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/planning/gpu_catalogue.h"

namespace ingot {

/// Where a planned run is to be.
struct PlannedCluster {
  PlannedDevice device;
  int ranks = 1;        ///< a GPU each, or on processors a process
  int nodes = 1;        ///< ranks divide by it
  double network = 0;   ///< bytes/s each way of a node, which its ranks share
  bool direct = false;  ///< GPU to GPU (NCCL); else through the hosts' memory

  int ranks_per_node() const { return ranks / nodes; }
};

/// What a plan may choose for a run.
struct PlannedChoice {
  int zero_stage = 0;  ///< 0 to 3
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;  ///< of the optimizer's state
  Offload gradients = Offload::none;
  Offload weights = Offload::none;      ///< of the layers' matrices
  Offload activations = Offload::none;  ///< of the layers' inputs
  std::int64_t batch = 1, accumulation = 1;

  /// "ZeRO 1, recompute selective, batch 8 × 4", and ", offload cpu" where it is
  std::string text() const;
};

/// Seconds of an optimizer step, and what they are made of.
///
/// A step has matmuls (FLOPs at the sustained rate), and between them moves activations through memory;
/// these add up, as kernels run one by one. Narrow layers move more bytes for a FLOP; that, and no constant
/// for each model, makes their share of the peak smaller. Gradients travel while the backward pass runs.
struct StepTime {
  double matmuls = 0;      ///< matmuls of weights and attention
  double moves = 0;        ///< through the device's memory: activations, logits, optimizer
  double launches = 0;     ///< what starting kernels takes beyond their work
  double exposed = 0;      ///< communication that no backward pass hides
  double hidden = 0;       ///< communication beside the backward pass
  double inside = 0;       ///< bytes that a rank sends to others of its node, a step
  double outside = 0;      ///< bytes that a node sends to others, a step
  double host_bytes = 0;   ///< bytes between a rank's device and its host's memory, each way
  double model_flops = 0;  ///< of a rank, 6 N and causal attention, without recomputation
  double hardware_flops = 0;

  double seconds() const { return matmuls + moves + launches + exposed; }
  /// "compute", "memory bandwidth", "kernel launches" or "link": the largest part
  const char* bound() const;
};

/// What a model takes whatever is chosen: bytes, FLOPs and counts.
struct ModelWork {
  double weights = 0, gradients = 0, optimizer = 0;  ///< bytes, of what trains
  double read = 0;                                   ///< bytes of the weights that a token passes
  double layer_bytes = 0;     ///< of the layers' matrices, as offload_weights moves them
  double layer_inputs = 0;    ///< bytes of a token's, of all layers
  double kept = 0;            ///< bytes of a token's activations, all of them
  double shared_experts = 0;  ///< bytes of the experts' weights, which ranks share out; 0: they do not
  double expert_rows = 0;     ///< bytes of a token's rows for its experts, of all layers, then
  double layer_flops = 0, head_flops = 0, attention_flops = 0;  ///< of a token, all passes
  std::int64_t layers = 0, expert_layers = 0, classes = 0;
};

/// Of config on such a device; what PlannedChoice has does not matter.
ModelWork model_work(const TrainConfig& config, const LanguageConfig& model, const PlannedDevice& device);

/// Of config with `choice` put in. Device memory is not checked.
StepTime plan_step_time(const TrainConfig& config, const ModelWork& work, const PlannedChoice& choice,
                        const PlannedCluster& on);

/// In each rank, as plan_memory() has it.
MemoryPlan plan_memory_of_choice(TrainConfig config, const LanguageConfig& model, const PlannedChoice& choice,
                                 const PlannedCluster& on);

}  // namespace ingot
