#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ingot/train/language/config.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {

/// Where a run is planned for.
struct PlannedPlace {
  std::size_t gpu_bytes = 0;  ///< of a GPU that need not be here; 0: config.training_device()
  int ranks = 1;
  int local_ranks = 1;  ///< that keep offloaded state on this machine
  std::function<bool(bool)> agree =
      {};  ///< whether all ranks say yes, so that they choose alike; or none: alone
};

/// One combination of the settings that take memory or time and change no bit.
struct MemoryChoice {
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;  ///< of the optimizer's state
  Offload gradients = Offload::none, weights = Offload::none, activations = Offload::none;
  MemoryPlan plan;
  double slowdown = 0;   ///< of the step time of the fastest combination: 0.1 is a tenth more
  bool has_room = true;  ///< for what is offloaded, where that goes
  bool fits = false;

  /// "recompute: selective, offload_optimizer: cpu", and ", offload_weights: cpu" and others where they are
  std::string text() const;
};

/// The bytes that config.memory_limit allows: what it says, but no more than `available`, and this for "auto"
/// and nothing. Throws InvalidConfig for what is not a size.
std::size_t allowed_memory(const TrainConfig& config, std::size_t available);

/// The combinations of what config.memory_limit leaves open, the fastest first, and of equals the one that
/// does least: each takes less memory than all before it that have room for what they offload. Step times are
/// those of plan_step_time() for a known GPU of this name, else for usual rates: they order the combinations,
/// and are not a forecast.
std::vector<MemoryChoice> memory_choices(const TrainConfig& config, const LanguageConfig& model,
                                         std::size_t limit, const PlannedPlace& place = {});

/// The first that fits. Throws OutOfMemory with the smallest, what takes its memory, and what to change.
const MemoryChoice& best_choice(const std::vector<MemoryChoice>& choices, const TrainConfig& config,
                                std::size_t limit);

/// Puts in what fits into `available` bytes, if config.memory_limit asks for it, and says so in a sentence;
/// else changes nothing and returns an empty text. Throws as best_choice().
std::string fit_into_memory(TrainConfig& config, const LanguageConfig& model, std::size_t available,
                            const PlannedPlace& place = {});

}  // namespace ingot
