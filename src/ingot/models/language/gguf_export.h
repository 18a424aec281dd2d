#pragma once

#include <memory>
#include <vector>

#include "ingot/models/language/checkpoint.h"
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

/// The reverse of gguf_checkpoint. NotImplemented for a family that GGUF files of ours do not have; Error
/// lists tensors that no rule knows.
GgufExport export_gguf(const ModelCheckpoint& checkpoint);

}  // namespace ingot
