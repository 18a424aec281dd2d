#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/language/config.h"
#include "ingot/models/language/gguf_facts.h"
#include "ingot/weights/gguf_metadata.h"

namespace ingot {

/// What Gemma 4's GGUF files say of single layers: which slide, sizes of heads and MLPs.
void write_gemma4_layers(const LanguageConfig& config, GgufMetadata& metadata);
/// What the period of each pair of a global layer's head is multiplied by: the tensor rope_freqs. Pairs that
/// stand still have kStillPair.
std::vector<double> gemma4_rope_factors(const LanguageConfig& config);
inline constexpr double kStillPair = 1e30;

/// The same from a file to config.json's keys; `factors`: rope_freqs, or nothing.
void read_gemma4_layers(const GgufFacts& facts, const std::vector<double>& factors,
                        nlohmann::ordered_json& config);

}  // namespace ingot
