#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ingot/core/dtype.h"

namespace ingot {

/// Writes the modules of a GGUF file's sentence encoder (pooling, Dense, Normalize, longest text, prompts) as
/// sentence-transformers has them beside the encoder, which is in `directory` already. Nothing where the file
/// names neither a pooling nor a module. Matrices are in `dtype`; without one as they are loaded.
void write_sentence_modules(const std::string& gguf, const std::string& directory,
                            std::optional<DType> dtype = std::nullopt);

/// What the matrices of these modules take.
std::uint64_t sentence_module_bytes(const std::string& gguf, std::optional<DType> dtype = std::nullopt);

}  // namespace ingot
