#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ingot/models/language/gguf_names.h"
#include "ingot/weights/gguf_metadata.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// Tensors of one number (GgufLayerNumber) on the way from a checkpoint to a GGUF file's metadata.
class LayerNumbers {
 public:
  LayerNumbers(std::span<const GgufLayerNumber> numbers, std::int64_t layers)
      : numbers_(numbers), layers_(layers) {}
  /// Whether `name`, as checkpoints have it, is one of them; then its value is taken.
  bool take(const std::string& name, const WeightSource& weights, const std::string& stored_name);
  /// A list of each. Throws IoError for `place` where a layer's was not taken.
  void write(GgufMetadata& metadata, const std::string& place) const;

 private:
  std::span<const GgufLayerNumber> numbers_;
  std::int64_t layers_;
  std::map<std::string, double> taken_;
};

/// The checkpoint's names of those that a file of so many layers has among its metadata.
std::vector<std::string> layer_number_names(std::span<const GgufLayerNumber> numbers, std::int64_t layers);
/// A GGUF file's tensors, and those f32 numbers as further ones. Throws FormatError where the metadata lack
/// one.
std::shared_ptr<const WeightSource> with_layer_numbers(std::shared_ptr<const WeightSource> source,
                                                       const GgufMetadata& metadata,
                                                       std::span<const GgufLayerNumber> numbers,
                                                       std::int64_t layers);

}  // namespace ingot
