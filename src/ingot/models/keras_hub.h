#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// The config.json of a Keras-Hub preset (BertBackbone or GPT2Backbone) in transformers' words; none where
/// `text` is not a preset's. NotImplemented for another class, FormatError for a damaged one, which `path`
/// names.
std::optional<std::string> keras_hub_config(std::string_view text, const std::string& path);

/// The weights of such a preset, whose file numbers variables instead of naming them, under PyTorch's names
/// and in its layouts. Null where the tensors are not those of Keras-Hub's encoder or decoder blocks.
std::shared_ptr<const WeightSource> from_keras_hub(const std::shared_ptr<const WeightSource>& source);

}  // namespace ingot
