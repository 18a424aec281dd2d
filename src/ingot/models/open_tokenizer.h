#pragma once

#include <cstdint>
#include <string>

#include "ingot/text/gguf_tokenizer.h"
#include "ingot/text/tokenizer.h"
#include "ingot/weights/gguf_metadata.h"

namespace ingot {

/// The tokenizer of a model directory, a tokenizer.json, or a GGUF file.
text::Tokenizer open_tokenizer(const std::string& path);

/// Whether there is one.
bool has_tokenizer(const std::string& path);

/// Adds the tokenizer of a model directory to a GGUF file's metadata, for an embedding of `rows`: all of
/// tokenizer.json, and the lists that llama.cpp reads where the tokenizer is one of the kinds it knows
/// (byte-level BPE with a known pattern, or a SentencePiece model beside it). False where it is not, or there
/// is none.
bool write_gguf_tokenizer(const std::string& directory, std::int64_t rows, GgufMetadata& metadata);

/// What a GGUF file's metadata say of its tokenizer. FormatError where a key has the wrong type.
text::GgufVocabulary gguf_vocabulary(const GgufMetadata& metadata);

}  // namespace ingot
