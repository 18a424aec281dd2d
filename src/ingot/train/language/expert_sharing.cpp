#include "ingot/train/language/expert_sharing.h"

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

void check_expert_ranks(const TrainConfig& config, const LanguageConfig& model, int processes) {
  const std::int64_t ranks = config.expert_parallel_size;
  const auto require = [&](bool holds, const std::string& problem) {
    INGOT_CHECK(holds, InvalidConfig("expert_parallel_size", fmt::format("is {}, but {}", ranks, problem)));
  };
  require(model.num_experts > 0, "this model has no experts; leave it out");
  require(processes % ranks == 0,
          fmt::format(
              "the run has {} processes, which it does not divide; start {} or a multiple by mpirun -n {} "
              "(plan: --gpus, memory: --ranks), or write {}",
              processes, ranks, ranks, processes));
  const bool trained = !config.adapter.enabled || config.adapter.expert_parameter_count(model) > 0;
  require(
      !config.ordered_gradients || !trained || ranks == processes,
      fmt::format("with ordered_gradients the {} processes have to be one group, as gradients of experts are "
                  "added rank by rank; write {}, or leave ordered_gradients out",
                  processes, processes));
  require(!config.ordered_gradients || !config.adapter.enabled || !trained ||
              config.adapter.lora.lora_dropout == 0,
          "with ordered_gradients and lora_dropout adapters of experts would drop other elements than in one "
          "process; write lora_dropout: 0, or leave ordered_gradients out");
  require(model.num_experts % ranks == 0,
          fmt::format("layers have {} experts, which it does not divide; write a number that divides them",
                      model.num_experts));
}

std::vector<Parameter*> expert_parameters(LanguageModel& model) {
  std::vector<Parameter*> all;
  for (const auto& layer : model.layers) {
    if (layer->experts == nullptr) continue;
    for (ExpertLinear* stack : layer->experts->stacks())
      for (Parameter* parameter : stack->stacks())
        if (*parameter && parameter->trainable()) all.push_back(parameter);
  }
  return all;
}

}  // namespace ingot
