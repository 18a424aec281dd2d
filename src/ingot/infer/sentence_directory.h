#pragma once

#include <string>

namespace ingot {

/// Writes the modules of a GGUF file's sentence encoder (pooling, Dense, Normalize, longest text, prompts) as
/// sentence-transformers has them beside the encoder, which is in `directory` already. Nothing where the file
/// names neither a pooling nor a module.
void write_sentence_modules(const std::string& gguf, const std::string& directory);

}  // namespace ingot
