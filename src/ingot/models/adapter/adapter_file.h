#pragma once

#include <map>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/models/adapter/lora_config.h"

namespace ingot {

/// What a file holds for one module: the two matrices [r, in] and [out, r], with DoRA a magnitude [out]; rows
/// of tokens [tokens, in]; or a whole weight instead of them. Of an embedding [tokens, width], b is [tokens,
/// r] and a [r, width].
struct ModuleTensors {
  Tensor a, b, magnitude, whole, tokens;
  bool embedding = false;
};

/// An adapter as a file holds it, whatever the format.
struct AdapterFile {
  std::string path;  ///< of the tensors, for messages
  LoraConfig config;
  std::map<std::string, ModuleTensors> modules;  ///< by the names of the family's checkpoints
};

}  // namespace ingot
