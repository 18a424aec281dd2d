#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/infer/sentence_config.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {

/// llama.cpp's number for classifiers and rerankers, where other files have a pooling's.
inline constexpr std::uint32_t kRankPooling = 4;

/// The pooling of a GGUF file, as llama.cpp numbers it. NotImplemented, naming `place`, for one that it has
/// not.
std::uint32_t gguf_pooling_type(const SentenceConfig& config, const std::string& place);

/// What llama.cpp leaves to its callers (unit length, the longest text, prompts), under `ingot.sentence.*`.
/// NotImplemented for modules behind the pooling that a file has no place for: all but Normalize, and the two
/// Dense modules of EmbeddingGemma, whose matrices are given.
std::vector<GgufTensor> write_sentence_fields(const SentenceConfig& config, const std::string& place,
                                              GgufMetadata& metadata);

/// The reverse of both. Files of others: mean pooling where they name none, vectors as they are.
SentenceConfig read_sentence_gguf(const std::string& path);

}  // namespace ingot
