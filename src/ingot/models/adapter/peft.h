#pragma once

#include <map>
#include <string>

#include "ingot/models/adapter/lora.h"

namespace ingot {

/// Whether a directory holds an adapter as PEFT writes it (adapter_config.json).
bool is_peft_adapter(const std::string& path);

/// Reads an adapter as PEFT saves it (adapter_config.json beside adapter_model.safetensors or .bin) and puts
/// it on the model under `name`, its updates multiplied by `weight`. Adapters of fused modules (query, key
/// and value in one) are taken apart; modules_to_save replace the model's. Returns the configuration. Errors
/// name the file and the tensor: an adapter of another base model, of other shapes, of modules that the model
/// does not have.
LoraConfig read_peft_adapter(AdaptedModel model, const std::string& directory,
                             const std::string& name = "default", float weight = 1.0F);

/// Writes the adapter `name` so that PEFT reads it. Parts of a fused module that were trained apart are
/// written as one adapter of the sum of their ranks. `config` says what the base model is, and which modules
/// are kept whole. `values` by parameter name stand in for the model's own (averages; copies that do not
/// change). Not atomic as a whole: give it the path of an AtomicDirectory.
void write_peft_adapter(const std::string& directory, AdaptedModel model, const LoraConfig& config,
                        const std::string& name = "default",
                        const std::map<std::string, Tensor>& values = {});

}  // namespace ingot
