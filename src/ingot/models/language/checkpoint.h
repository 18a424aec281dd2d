#pragma once

#include <memory>
#include <string>

#include "ingot/weights/gguf.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A model as a Hugging Face directory holds it, whatever it was read from.
struct ModelCheckpoint {
  std::string config_json;                      ///< the text of config.json
  std::string config_path;                      ///< where that came from, for messages
  std::shared_ptr<const WeightSource> weights;  ///< under the family's checkpoint names
};

/// Opens a model directory (config.json and weights), or a GGUF file. IoError where it is neither. A
/// checkpoint that GPTQ, AWQ, bitsandbytes, compressed-tensors or an FP8 tool quantized
/// (`quantization_config` in config.json, or quantize_config.json) has its matrices under their dense names
/// (open_quantized), and a config_json without that key.
ModelCheckpoint open_checkpoint(const std::string& path);

/// A GGUF model: its metadata become config.json; its tensors get the names, orders of rows and layouts of
/// the family's checkpoints, each when it is asked for. Tensors of block-quantized types load as their exact
/// values in f32; stored_bytes() gives their blocks where rows stay whole, which all of Llama's do.
/// NotImplemented lists the architectures that are known; FormatError names a missing or odd metadata key.
ModelCheckpoint gguf_checkpoint(const std::shared_ptr<const GgufSource>& source);

}  // namespace ingot
