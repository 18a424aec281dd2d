#pragma once

#include <string>
#include <vector>

#include "ingot/export/gguf.h"
#include "ingot/models/adapter/use_adapters.h"

namespace ingot {

/// How LoRA adapters are added to the weights of their base model.
struct MergeOptions {
  std::string model;                      ///< the base model: a directory or a GGUF file
  std::string destination;                ///< the directory to write
  std::string dtype;                      ///< of the merged weights: "f32", "bf16", "f16"; empty: as stored
  std::vector<AdapterChoice> adapters{};  ///< their updates add up
};

WrittenModel merge_model(const MergeOptions& options, const WriteProgress& progress = {});

}  // namespace ingot
