#pragma once

#include <memory>
#include <string>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// Opens whatever stands at `path`, by content: a .safetensors or .npy file, an index of shards, or a
/// directory of them. FormatError that lists the known formats otherwise.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

}  // namespace ingot
