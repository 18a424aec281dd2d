#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/export/gguf.h"

namespace ingot {

/// How weights, or a whole model, are written in another format or element type.
struct ConvertOptions {
  std::string source;       ///< a model directory, an adapter, or any file that open_weights() knows
  std::string destination;  ///< NAME.gguf, NAME.npz, NAME.safetensors, NAME.pt, NAME.onnx, or a directory
  std::string to;  ///< "safetensors", "gguf", "npz", "pt" or "onnx"; empty: as the destination's name tells
  std::string dtype;  ///< "f32", "bf16", "f16", or, for GGUF, a block format; empty: as stored
  std::uint64_t max_shard_bytes = 0;  ///< several files above this; 0: a directory 5 GB, GGUF one file
  std::string base;              ///< of an adapter: its base model; empty: as adapter_config.json names it
  std::vector<std::string> raw;  ///< what a source without a header holds (parse_raw_tensors)
};

struct ConvertedModel {
  std::string path, format;
  std::uint64_t bytes = 0;
  quant::StandIns stand_ins;  ///< matrices that do not have the block format that was asked for
};

/// Errors: InvalidConfig for options that do not go together, and those of the formats.
ConvertedModel convert_model(const ConvertOptions& options, const WriteProgress& progress = {});

}  // namespace ingot
