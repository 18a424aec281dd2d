#pragma once

#include <cstdint>

#include "ingot/models/language/config.h"

namespace ingot {

/// Tokens of a sequence that a model is made for: max_position_embeddings or, where RoPE's scaling extends
/// the context it was trained with (yarn, linear, dynamic), that context times the factor, as in vLLM.
std::int64_t context_length(const LanguageConfig& config);

}  // namespace ingot
