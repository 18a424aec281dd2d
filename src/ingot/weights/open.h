#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A format that a plugin brings.
struct WeightFormat {
  std::string name;        ///< "text tensors"
  std::string usual_name;  ///< "model.ttxt": what weights in a directory are called, and end in
  /// Whether these bytes, or the name of the blob, say that it is of this format.
  std::function<bool(const Blob&)> matches;
  std::function<std::unique_ptr<WeightSource>(Blob)> open;
};
/// Known from now on, and asked before the formats of Ingot's own. InvalidConfig where there is one of this
/// name or usual name.
void register_weight_format(const WeightFormat& format);

/// Opens whatever stands at `path`, by content: a file of weights, an index of shards, or a directory of
/// either. FormatError that lists the known formats otherwise.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

/// Opens one file by its bytes, wherever they are; blob.name says what it wants to be where they are damaged.
std::unique_ptr<WeightSource> open_weights(Blob blob);

}  // namespace ingot
