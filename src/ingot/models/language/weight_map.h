#pragma once

#include <string>

#include "ingot/models/language/config.h"
#include "ingot/models/weight_map.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// What the checkpoints of this model's family call its parameters.
WeightMap language_weight_map(const LanguageConfig& config);

/// The configuration as its file has it: a head in there that is not the embedding counts where the
/// configuration ties them, as in transformers.
LanguageConfig with_head_of(const WeightSource& weights, LanguageConfig config);

/// What GGUF files call the tensor that holds a parameter of ours ("model.layers.0.mlp.up_proj.weight");
/// empty where they do not have this family, or no tensor for it.
std::string gguf_name_of(const LanguageConfig& config, const std::string& parameter);

}  // namespace ingot
