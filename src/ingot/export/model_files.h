#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ingot/weights/encode.h"

namespace ingot {

/// Told how many bytes of how many have been written, after each tensor. What it throws ends the writing, and
/// nothing that was written stays.
using WriteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;
/// What writers call for each tensor, for a progress (which may be empty) of so many bytes.
WrittenCallback count_written(const WriteProgress& progress, std::uint64_t total);

/// A directory of Hugging Face's layout, or a GGUF file.
bool is_model(const std::string& path);

/// Puts whatever else belongs to a model into a directory: tokenizers, templates, model cards; not
/// config.json, not weights. The tokenizers of GGUF files and of Keras-Hub's presets are written as
/// tokenizer.json.
void copy_companions(const std::string& model, const std::string& directory);

/// InvalidConfig where both are one file or directory, or where the destination has the ending of a format of
/// weights that is not among those that are `written` (".gguf", as it stands).
void check_destination(const std::string& source, const std::string& destination,
                       const std::vector<std::string>& written);

/// config.json's text with another dtype in it; as it is where `dtype` is none.
std::string config_with_vocabulary(const std::string& config, std::int64_t tokens);
std::string config_with_dtype(const std::string& config, std::optional<DType> dtype);

}  // namespace ingot
