#pragma once

#include <string>

#include "ingot/export/convert.h"

namespace ingot {

/// Whether `source` holds an adapter instead of a model: a PEFT directory, or a GGUF file of one.
bool is_adapter(const std::string& source);

/// The base model that adapter_config.json names. InvalidConfig where none is named.
std::string base_of_adapter(const std::string& source);

/// Writes an adapter in the other format: NAME.gguf as llama.cpp reads it, or a PEFT directory. The base
/// model (options.base, or the one that adapter_config.json names) tells shapes and the orders of rows; its
/// weights are not read.
ConvertedModel convert_adapter(const ConvertOptions& options);

}  // namespace ingot
