#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/architecture_check.h"

namespace ingot {

/// What a user can do with a model.
enum class ModelTask : std::uint8_t { generate, train, embed, masked_lm, forecast, play };

std::string_view name(ModelTask task);

/// A family of models that Ingot opens and writes.
struct ModelInfo {
  std::string name;                        ///< model_type in config.json
  std::string summary;                     ///< one line
  std::vector<std::string> architectures;  ///< class names in config.json
  std::vector<std::string> variants;       ///< what may differ between its checkpoints, and is understood
  std::vector<std::string> repositories;   ///< published models of this layout
  std::vector<ModelTask> tasks;

  bool can(ModelTask task) const;
};

/// All of them, in the order that `ingot models` prints.
std::span<const ModelInfo> model_registry();

/// By model_type or by architecture; null where there is none.
const ModelInfo* find_model(std::string_view name);

/// Throws InvalidConfig for `where`: `model_type` cannot do `task`, or is not known; then with the nearest.
/// Lists those that can.
[[noreturn]] void throw_unsuitable_model(const std::string& model_type, ModelTask task,
                                         const std::string& where);

/// What stands in a model directory, for a person: family and sizes. Empty without a config.json, or with one
/// of a family that Ingot does not have.
std::string describe_model(const std::string& directory);

/// Whether `weights`, those of the directory, fit its config.json; none where describe_model() says nothing.
std::optional<ArchitectureReport> check_model(const std::string& directory, const WeightSource& weights);

}  // namespace ingot
