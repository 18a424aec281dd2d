#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/language/config.h"
#include "ingot/models/language/gguf_facts.h"
#include "ingot/weights/gguf_metadata.h"

namespace ingot {

/// What Gemma 3n's GGUF files say of single layers: which slide, and where the cutoffs of their gates are.
void write_gemma3n_layers(const LanguageConfig& config, GgufMetadata& metadata);
/// The same from a file to config.json's keys, and what its tensors alone tell.
void read_gemma3n_layers(const GgufFacts& facts, const GgufSource& source, nlohmann::ordered_json& config);

}  // namespace ingot
