#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/language/config.h"
#include "ingot/models/language/gguf_facts.h"
#include "ingot/weights/gguf_metadata.h"

// The metadata of models whose layers keep states, beyond what the rules of their families tell.
namespace ingot {

/// `architecture`: general.architecture, in front of every key.
void write_states(const std::string& architecture, const LanguageConfig& c, GgufMetadata& metadata);

/// Fills what config.json has of them.
void read_states(const GgufFacts& facts, nlohmann::ordered_json& config);

/// Whether a granitehybrid file is of a Bamba: Granite's multipliers are missing.
bool is_bamba(const GgufFacts& facts);

/// Heads of keys and values in the layers that have some.
std::int64_t gguf_key_heads(const GgufFacts& facts);

}  // namespace ingot
