#pragma once

#include <map>
#include <memory>
#include <string>

#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"

namespace ingot {

/// Opens a model directory as Hugging Face tools write it (config.json and weights), or a GGUF file.
/// Throws IoError, FormatError or Error, which lists every missing, unexpected and mis-shaped tensor at once.
std::unique_ptr<LanguageModel> load_language_model(const std::string& path, const LoadOptions& options = {});
std::unique_ptr<LanguageModel> load_language_model(const ModelCheckpoint& checkpoint,
                                                   const LoadOptions& options = {});

/// Writes config.json, generation_config.json and model.safetensors for `weights` (our names), under the
/// names that the family's checkpoints use. Not atomic as a whole: give it the path of an AtomicDirectory.
void write_language_model(const std::string& directory, const LanguageConfig& config,
                          const std::map<std::string, Tensor>& weights);

/// The parameters of a model by name, sharing their memory.
std::map<std::string, Tensor> parameter_map(LanguageModel& model);

}  // namespace ingot
