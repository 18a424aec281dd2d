#pragma once

#include <memory>
#include <string>

#include "ingot/models/language/decoder.h"

namespace ingot::infer {

/// Opens a model directory or a GGUF file for inference. Matrices keep what the file holds: f32, bf16 and f16
/// stay in the mapped file, which processes share; GGUF's quantised blocks are put into tiles. With `format`
/// they are converted first: "f32", "bf16", "f16", or a quantised format ("q4_k"; InvalidConfig lists them).
/// Norms and biases are f32, and so is all arithmetic between products. Throws as load_language_model does.
std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& format = {});

}  // namespace ingot::infer
