#pragma once

#include <memory>
#include <string>

#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/weights/gguf.h"

namespace ingot {

/// Whether a GGUF file holds an encoder that llama.cpp has (bert, nomic-bert, modern-bert).
bool is_encoder_gguf(const GgufMetadata& metadata);

/// Such a file as a directory of transformers: BERT's and its kin (RoBERTa, DistilBERT: llama.cpp has one
/// architecture for them) as `bert`. Throws as gguf_checkpoint does.
ModelCheckpoint encoder_gguf_checkpoint(const std::shared_ptr<const GgufSource>& source);

/// The encoder of a model directory as llama.cpp's converter would write it, with the head of a classifier of
/// texts where llama.cpp has it. Heads of masked tokens are left out. NotImplemented says what llama.cpp
/// would not compute alike. Neither tokenizer nor pooling are among the metadata.
GgufExport export_encoder_gguf(const std::string& directory);

}  // namespace ingot
