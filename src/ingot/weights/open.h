#pragma once

#include <memory>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// Opens whatever stands at `path`, by content: a file of weights, an index of shards, or a directory of
/// either. FormatError that lists the known formats otherwise.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

/// Opens one file by its bytes, wherever they are; blob.name says what it wants to be where they are damaged.
std::unique_ptr<WeightSource> open_weights(Blob blob);

}  // namespace ingot
