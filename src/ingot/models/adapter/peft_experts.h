#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/models/adapter/adapter_file.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/nn/given_matrices.h"
#include "ingot/nn/low_rank_adapter.h"

// What peft.cpp reads and writes of mixtures of experts. PEFT has two layouts of them:
// - lora_A and lora_B of a module for each expert, "...experts.3.gate_proj.lora_A.weight";
// - of a parameter that stacks them (`target_parameters`), where the module of all experts has lora_A [rank ·
//   experts, in], ordered by expert, and lora_B [out, rank · experts], ordered by rank. A second parameter of
//   that module wraps the first, which is called "...experts.base_layer" then.
// Experts with a module each are written in the first, which transformers 4 and 5 and vLLM read.
namespace ingot {

inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// The names by which a file may have what is of these experts.
std::set<std::string> modules_of_experts(std::span<const AdaptedExperts> experts);

/// A parameter's value on the host, or what stands in for it in `values`.
Tensor value_of(const Parameter& parameter, const std::map<std::string, Tensor>& values);

/// What a file holds for a layer of experts: A [experts, rank, in] and B [experts, out, rank] of the whole
/// stack, of which the model may have a part.
struct ExpertStacks {
  const AdaptedExperts* at;
  Tensor a, b;
  float scale;
  std::int64_t count() const { return a.dim(0); }
};

/// Takes what is of experts out of `modules`, which `file` holds.
std::vector<ExpertStacks> take_expert_stacks(const std::string& file,
                                             std::map<std::string, ModuleTensors>& modules,
                                             std::span<const AdaptedExperts> experts,
                                             const LoraConfig& config);
/// The adapter of what this model has of a stack.
std::unique_ptr<LowRankAdapter> expert_adapter(const ExpertStacks& stacks, const std::string& name,
                                               float weight);

/// The adapters called `name` of a model's experts, f32 and on the host.
std::vector<ExpertStacks> expert_stacks(std::span<const AdaptedExperts> experts, const std::string& name,
                                        const std::map<std::string, Tensor>& values);
/// The reverse of take_expert_stacks(): adds them to `modules`, and what they target to `config`. `experts`:
/// all of the model.
void put_expert_stacks(const WeightMap& map, std::span<const AdaptedExperts> experts,
                       const std::vector<ExpertStacks>& stacks, LoraConfig& config,
                       std::map<std::string, ModuleTensors>& modules);

}  // namespace ingot
