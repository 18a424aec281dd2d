#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ingot/train/language/config.h"

namespace ingot {

/// What a training run will hold, in bytes, computed before it starts. What adds up to total() is there at
/// one time: the moment of a step in which it is most.
struct MemoryPlan {
  std::size_t parameters = 0;
  std::size_t reference = 0;  ///< a frozen copy, for objectives that compare with it
  std::size_t teacher = 0;    ///< of distillation
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t ema = 0;
  std::size_t activations = 0;  ///< of those that are kept from the forward for the backward pass
  /// Gradients of activations, and a layer that runs again; or the logits of one chunk.
  std::size_t transients = 0;
  std::size_t kept = 0;           ///< from the forward for the backward pass, between the two
  std::size_t all_gradients = 0;  ///< of a backward pass, whether they are ever together or not
  std::size_t sums = 0;           ///< of gradients, with their buckets, that stay from pass to pass
  /// Of the optimizer's state, between steps, in the host's memory or in a file: beside the total.
  std::size_t offloaded = 0;
  std::size_t offloaded_gradients = 0;    ///< the same, of gradients; what comes and goes is in transients
  std::size_t offloaded_weights = 0;      ///< the same, of layers that do not compute
  std::size_t offloaded_activations = 0;  ///< the same, of layers that run again
  /// While ranks that share out weights have all of them, and the rank's part: before the first step, or
  /// where rollouts and samples gather all layers. More than the total where there are many ranks.
  std::size_t all_weights = 0;
  /// While GRPO's answers are written: their keys and values, that pass, and what stays. More than the total
  /// where answers are many. 0: none are.
  std::size_t rollout = 0;
  /// The most of buckets of gradients that wait for slow links beside the total, of several ranks at stage 2.
  std::size_t waiting = 0;
  std::size_t moving = 0;  ///< activations and transients when these are most, which may be another time
  bool on_gpu = false;
  std::size_t total() const {
    return parameters + reference + teacher + gradients + optimizer + ema + activations + transients;
  }
  /// The total, what waits, and what an allocator cannot use beside it: a tenth, on a GPU
  /// only of what comes and goes in a step (`moving`), as the rest are a few large blocks of exact size. No
  /// less than all_weights, and rollout with a tenth.
  std::size_t needed() const;
  /// (what, bytes), largest first.
  std::vector<std::pair<std::string, std::size_t>> parts() const;
  /// The same in words, with what waits.
  std::string parts_text() const;
};

/// Elements of the table that makes layers' inputs (Gemma 4): an embedding, of which few rows are read.
std::int64_t layer_input_table(const LanguageConfig& model);

/// On config.training_device(), in each of so many ranks. Throws InvalidConfig for heads whose gradients no
/// kernel of the device makes.
MemoryPlan plan_memory(const TrainConfig& config, const LanguageConfig& model, int ranks = 1);
/// On a GPU with so many bytes of memory, which need not be here.
MemoryPlan plan_memory_of_gpu(const TrainConfig& config, const LanguageConfig& model, std::size_t memory,
                              int ranks = 1);

/// What would make such a run smaller, as a half-sentence.
std::string memory_advice(const MemoryPlan& plan, const TrainConfig& config);

/// Whether the host's memory, or the disk of output_dir, has space for what so many ranks of this machine
/// keep there between steps.
bool offload_has_room(const MemoryPlan& plan, const TrainConfig& config, int local_ranks = 1);

/// Throws OutOfMemory, with what takes the memory and what would make it fit, when plan.needed() is more than
/// `available` bytes, or what is offloaded does not fit. `loaded`: bytes of weights that are in the host's
/// memory and leave it for where offload_weights has them.
void check_memory(const MemoryPlan& plan, const TrainConfig& config, std::size_t available,
                  int local_ranks = 1, std::size_t loaded = 0);

}  // namespace ingot
