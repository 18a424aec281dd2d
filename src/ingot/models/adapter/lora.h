#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/adapter/lora_config.h"
#include "ingot/models/weight_map.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct LowRankAdapter;

/// A model as adapters see it: its weights, and what checkpoints of its family call them.
struct AdaptedModel {
  ModuleRef module;
  const WeightMap& map;
};

/// Puts a fresh adapter called `name` on every weight that the configuration targets, with parameters out of
/// `source` ("<module>.<name>.lora_A", ...). Returns the modules. InvalidConfig that lists what there is to
/// target where nothing matches.
std::vector<std::string> add_lora(AdaptedModel model, const LoraConfig& config, const ParamSource& source,
                                  const std::string& name = "default");

/// Makes the parameters of the adapter `name` and the modules_to_save the only ones that train. The
/// adapter's are f32 whatever the model's dtype, as they are small and their updates smaller. Error where a
/// module to save is quantized.
void train_adapter_only(AdaptedModel model, const LoraConfig& config, std::string_view name = "default");

/// Adds the updates of all adapters that are on to the dense matrices (in f32, then rounded to their dtype)
/// and removes every adapter. Error where an adapted matrix is quantized: load its values instead
/// (LoadOptions::keep_quantized false).
void merge_adapters(ModuleRef model);

/// Every adapter on a model, of linear layers, embeddings and experts.
std::vector<LowRankAdapter*> adapters_of(ModuleRef model);

/// Removes the adapter `name` wherever it is.
void remove_adapter(ModuleRef model, std::string_view name);

/// Switches the adapter `name` on or off wherever it is.
void enable_adapter(ModuleRef model, std::string_view name, bool enabled);

}  // namespace ingot
