#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ingot/models/adapter/adapter_file.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/nn/linear_weight.h"

namespace ingot {

/// Whether a directory holds an adapter as PEFT writes it (adapter_config.json).
bool is_peft_adapter(const std::string& path);

/// The tokens that a model has to have for an adapter: by rows that were trained by themselves, or by
/// embeddings that are kept whole. 0: any number.
std::int64_t vocabulary_of_peft_adapter(const WeightMap& map, const std::string& directory);

/// Reads an adapter as PEFT saves it (adapter_config.json beside adapter_model.safetensors or .bin) and puts
/// it on the model under `name`, its updates multiplied by `weight`. Adapters of fused modules (query, key
/// and value in one) are taken apart; modules_to_save replace the model's. Returns the configuration. Errors
/// name the file and the tensor: an adapter of another base model, of other shapes, of modules that the model
/// does not have.
LoraConfig read_peft_adapter(AdaptedModel model, const std::string& directory,
                             const std::string& name = "default", float weight = 1.0F);

/// An adapter that was read for a model, and is not on it yet.
struct PeftAdapter {
  struct Whole {
    LinearWeight* weight;
    Tensor value;
  };
  LoraConfig config;
  std::vector<std::pair<LinearWeight*, std::unique_ptr<LowRankAdapter>>> pairs;
  std::vector<std::pair<ExpertLinear*, std::unique_ptr<LowRankAdapter>>> experts;
  std::vector<Whole> wholes;  ///< modules_to_save

  std::size_t nbytes() const;  ///< of the pairs, with those of experts
  std::vector<LowRankAdapter*> all_pairs() const;
};
/// Reads an adapter as read_peft_adapter() does for `parts`, those of a model, and leaves them as they are:
/// another thread may run the model meanwhile, and change its adapters. Its matrices are f32.
PeftAdapter open_peft_adapter(const AdaptedParts& parts, const WeightMap& map, const std::string& directory,
                              const std::string& name, float weight = 1.0F);
/// The two halves of it: what the directory holds, and its matrices for `parts`.
AdapterFile read_peft_file(const WeightMap& map, const std::string& directory);
PeftAdapter place_adapter(const AdaptedParts& parts, const WeightMap& map, AdapterFile file,
                          const std::string& name, float weight = 1.0F);
/// Error, naming module and shapes, where a file does not fit these parts; of experts their names alone.
void check_adapter(const AdaptedParts& parts, const AdapterFile& file);
/// Puts it on the model that it was read for.
void put_on(PeftAdapter adapter);

/// Writes the adapter `name` so that PEFT reads it. Parts of a fused module that were trained apart are
/// written as one adapter of the sum of their ranks. `config` says what the base model is, and which modules
/// are kept whole. `values` by parameter name stand in for the model's own (averages; copies that do not
/// change). Not atomic as a whole: give it the path of an AtomicDirectory.
void write_peft_adapter(const std::string& directory, AdaptedModel model, const LoraConfig& config,
                        const std::string& name = "default",
                        const std::map<std::string, Tensor>& values = {});

/// Writes what a file holds so that PEFT reads it: config.target_modules names the modules. Not atomic as a
/// whole.
void write_peft_file(const std::string& directory, const AdapterFile& file);

}  // namespace ingot
