#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/architecture_check.h"

namespace ingot {

/// What a user can do with a model.
enum class ModelTask : std::uint8_t { generate, train, embed, masked_lm, classify, forecast, play };

std::string_view name(ModelTask task);

/// A family of models that Ingot opens and writes.
struct ModelInfo {
  std::string name;                        ///< model_type in config.json
  std::string summary;                     ///< one line
  std::vector<std::string> architectures;  ///< class names in config.json
  std::vector<std::string> variants;       ///< what may differ between its checkpoints, and is understood
  std::vector<std::string> repositories;   ///< published models of this layout
  std::vector<ModelTask> tasks;
  std::string gguf = {};     ///< general.architecture of its GGUF files; empty: there are none
  bool gguf_written = true;  ///< false: such files are only read

  bool can(ModelTask task) const;
};

/// All of them, in the order that `ingot models` prints.
std::span<const ModelInfo> model_registry();

/// By model_type or by architecture; null where there is none.
const ModelInfo* find_model(std::string_view name);

/// Every name and every architecture.
std::vector<std::string> known_model_names();

/// Throws InvalidConfig for `where`: `model_type` cannot do `task`, or is not known; then with the nearest.
/// Lists those that can.
[[noreturn]] void throw_unsuitable_model(const std::string& model_type, ModelTask task,
                                         const std::string& where);

/// What stands in a model directory or a GGUF file, for a person: family and sizes; or that it is of no
/// family that Ingot has. Empty without a config.json.
std::string describe_model(const std::string& path);

/// Whether `stored`, the weights of the directory or file, fit its configuration; none where that is of no
/// known family.
std::optional<ArchitectureReport> check_model(const std::string& path,
                                              const std::shared_ptr<const WeightSource>& stored);

}  // namespace ingot
