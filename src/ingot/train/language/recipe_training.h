#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ingot/dist/communicator.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/recipe/recipe_state.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// The file of a checkpoint's tensors that a recipe goes on with.
inline constexpr const char* kRecipeFile = "recipe";

/// The weights that config.recipe rounds, by name: linear layers of the model's layers, but for the first and
/// last ones that are left out and for routers. Embeddings, the head and stacks of experts stay as they are.
std::vector<std::pair<std::string, LinearWeight*>> recipe_weights(LanguageModel& model, const Recipe& recipe);

/// Puts config.recipe on the model; null where it asks for nothing beyond torch_dtype. InvalidConfig where
/// the model cannot be trained with it.
std::unique_ptr<RecipeState> make_recipe_state(LanguageModel& model, const TrainConfig& config);
/// The same, told to the log.
std::unique_ptr<RecipeState> put_recipe(LanguageModel& model, const TrainConfig& config);

/// "recipe nvfp4, emulated" for logs and reports: rounded operands multiply as f32 where the device has no
/// matmuls of the format. Empty without a recipe.
std::string recipe_summary(const TrainConfig& config, Device device);

/// RecipeState::end_step() with the largest magnitudes of all ranks.
void end_recipe_step(RecipeState& state, dist::Communicator& communicator);

/// What a run may not change of it, by the keys of the configuration: (key, value as JSON).
std::vector<std::pair<std::string, std::string>> recipe_settings(const Recipe& recipe);

}  // namespace ingot
