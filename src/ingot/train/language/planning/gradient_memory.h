#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ingot/train/language/config.h"
#include "ingot/train/language/planning/dry_pass.h"

namespace ingot {

/// How the gradients of a step lie in memory.
struct GradientMemory {
  enum class Lie : std::uint8_t {
    as_made,   ///< the backward pass makes each, and the optimizer's step drops it
    standing,  ///< all are there before a pass, which writes or adds to them
    passing,   ///< as they are made; a bucket's are put together, sent and dropped
    elsewhere
  };
  struct Bucket {
    std::vector<std::int32_t> gradients;  // of PassMemory::gradients
    std::size_t bytes = 0;
    std::int64_t layer = -1;  // whose weights the ranks share out
  };
  Lie lie = Lie::as_made;
  std::size_t all = 0;          ///< bytes of all of them
  std::size_t between = 0;      ///< that stay between passes: standing gradients, and sums
  bool stays = false;           ///< so from step to step, too
  std::size_t waiting = 0;      ///< of buckets, where links are slow, beside the peak of a step
  std::vector<Bucket> buckets;  ///< of several ranks, in the order in which a pass fills them
  bool gathers_values = false;  ///< after a step, each bucket's weights
  bool shares_weights = false;  ///< ZeRO 3
  bool experts_stand = false;   ///< their gradients, which are in no bucket, are there before a pass
};

/// In each of so many ranks. `own`: bytes of the gradients that they all have; `experts`: of those that each
/// has a part of, in bytes of the part.
GradientMemory gradient_memory(const TrainConfig& config, const PassMemory& pass, std::size_t own,
                               std::size_t experts, std::size_t ranks, bool on_gpu);

/// What of a step is there when it takes most.
struct StepPeak {
  std::size_t gradients = 0;
  std::size_t activations = 0;  ///< of those that the forward pass keeps
  std::size_t transients = 0;
  std::int64_t layers = 0;  ///< whose weights are there, where they come and go
  std::size_t moving = 0;   ///< activations and transients when these are most, which may be another time
  std::size_t total(std::size_t layer_bytes) const {
    return gradients + activations + transients + static_cast<std::size_t>(layers) * layer_bytes;
  }
};

/// Bytes at the moment that takes most.
std::size_t most_of(const std::vector<PassMoment>& pass);

/// `layer_bytes`: of weights that come and go; `extra`: bytes that any moment of a pass takes besides;
/// `step`: that the optimizer's step takes, when no activations are there.
StepPeak peak_of_step(const PassMemory& pass, const GradientMemory& gradients, std::size_t layer_bytes,
                      std::size_t extra, std::size_t step);

}  // namespace ingot
