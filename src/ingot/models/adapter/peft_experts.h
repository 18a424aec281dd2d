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

/// Takes what is of experts out of `modules`, which `file` holds.
std::vector<std::pair<ExpertLinear*, std::unique_ptr<LowRankAdapter>>> take_expert_adapters(
    const std::string& file, std::map<std::string, ModuleTensors>& modules,
    std::span<const AdaptedExperts> experts, const LoraConfig& config, const std::string& name, float weight);

/// Adds the experts' adapters called `name` to `tensors`, and what they target to `config`. False: there are
/// none.
bool write_expert_adapters(AdaptedModel model, const std::string& name,
                           const std::map<std::string, Tensor>& values, LoraConfig& config,
                           std::map<std::string, Tensor>& tensors);

}  // namespace ingot
