#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/gguf_names.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/gguf_writer.h"

namespace ingot {

/// A model as llama.cpp's converter would write it: metadata, tensors under GGUF's names and in its orders,
/// and those that the checkpoint has as settings only (scaled rotary frequencies). The tokenizer is not among
/// them.
struct GgufExport {
  GgufMetadata metadata;
  std::shared_ptr<const WeightSource> weights;
  std::vector<GgufTensor> extra;
};

/// A family as GGUF files of a model of this configuration name it. NotImplemented, naming `place`, where
/// none of ours do.
GgufFamily gguf_family_of(const LanguageConfig& config, const std::string& place);

/// Tensors of a checkpoint under GGUF's names and in its orders, without what makes a file of a model of
/// them: some of its tensors are enough. Errors as export_gguf().
std::shared_ptr<const WeightSource> export_gguf_tensors(const ModelCheckpoint& checkpoint);

/// The reverse of gguf_checkpoint. NotImplemented for a family that GGUF files of ours do not have; Error
/// lists tensors that no rule knows.
GgufExport export_gguf(const ModelCheckpoint& checkpoint);

}  // namespace ingot
