#pragma once

#include <memory>
#include <string>

#include "ingot/models/forecast/config.h"
#include "ingot/models/registry.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// What a path says of its model: a directory's config.json, or a GGUF file's metadata as one.
struct OpenedConfig {
  const ModelInfo* info =
      nullptr;  ///< null: none that Ingot has; then `problem` says so, unless there is none
  std::string text{}, path{}, problem{};
  std::shared_ptr<const WeightSource> weights{};  ///< of a GGUF file, under the names of checkpoints
};

/// Throws FormatError where a config.json cannot be read.
OpenedConfig open_config(const std::string& path);
/// Of a network that can forecast.
ForecastModelConfig read_forecaster(const OpenedConfig& opened);

}  // namespace ingot
