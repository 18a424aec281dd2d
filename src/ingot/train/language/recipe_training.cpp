#include "ingot/train/language/recipe_training.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/models/adapter/modules.h"
#include "ingot/nn/recipe/operand.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

// Whether its matmuls are those of torch_dtype.
bool adds_nothing(const TrainConfig& config) {
  return !config.recipe.is_on() || (config.recipe.kind == RecipeKind::bf16 && config.dtype == DType::bf16);
}

// The layer that a weight is of: "model.layers.3.mlp.up_proj" is of 3; -1: of none.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  return name.starts_with(kLayers) ? std::atoll(std::string(name.substr(kLayers.size())).c_str()) : -1;
}

}  // namespace

std::vector<std::pair<std::string, LinearWeight*>> recipe_weights(LanguageModel& model,
                                                                  const Recipe& recipe) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  const std::int64_t first = recipe.skip_first_layers,
                     end = model.config.num_hidden_layers - recipe.skip_last_layers;
  std::vector<std::pair<std::string, LinearWeight*>> weights;
  for (const AdaptedWeight& at : adapted_weights({model, map})) {
    const std::int64_t layer = layer_of(at.ours);
    const bool routes = at.ours.ends_with(".gate") || at.ours.ends_with("_gate");
    if (!at.is_head && !routes && layer >= first && layer < end) weights.emplace_back(at.ours, at.weight);
  }
  return weights;
}

std::unique_ptr<RecipeState> make_recipe_state(LanguageModel& model, const TrainConfig& config) {
  if (adds_nothing(config)) return nullptr;
  const Recipe& recipe = config.recipe;
  const bool has_experts = model.config.num_experts > 0;
  INGOT_CHECK(recipe.kind != RecipeKind::bitnet || !has_experts,
              InvalidConfig("recipe",
                            "bitnet does not train mixtures of experts, whose stacks it would leave "
                            "as they are; write bf16, fp8_hybrid or nvfp4"));
  INGOT_CHECK(recipe.kind != RecipeKind::bitnet || !model.config.is_latent(),
              InvalidConfig("recipe",
                            "bitnet does not train latent attention, which reads kv_b_proj as it is; "
                            "write bf16, fp8_hybrid or nvfp4"));
  return std::make_unique<RecipeState>(recipe, recipe_weights(model, recipe));
}

std::unique_ptr<RecipeState> put_recipe(LanguageModel& model, const TrainConfig& config) {
  auto state = make_recipe_state(model, config);
  if (state == nullptr) return nullptr;
  log(LogLevel::info, "ingot::train",
      fmt::format("{}: {} linear layers{}", recipe_summary(config, model.device()), state->size(),
                  model.config.num_experts > 0 ? "; stacks of experts stay in torch_dtype" : ""));
  return state;
}

std::string recipe_summary(const TrainConfig& config, Device device) {
  const RecipeKind kind = config.recipe.kind;
  if (kind == RecipeKind::none) return {};
  const bool has_products =
      adds_nothing(config) || (kind == RecipeKind::fp8_hybrid && has_fp8_matmul(device));
  return fmt::format("recipe {}{}", name(kind), has_products ? "" : ", emulated");
}

void end_recipe_step(RecipeState& state, dist::Communicator& communicator) {
  const Tensor& amax = state.input_amax();
  if (amax.defined() && communicator.size() > 1) {
    const std::vector<float> mine = amax.to_vector<float>();
    std::vector<float> all(mine.size() * static_cast<std::size_t>(communicator.size())), most(mine.size());
    communicator.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    for (std::size_t i = 0; i < all.size(); ++i)
      most[i % mine.size()] = std::max(most[i % mine.size()], all[i]);
    copy_(amax, to(Tensor::from(most, amax.shape()), amax.device()));
  }
  state.end_step();
}

std::vector<std::pair<std::string, std::string>> recipe_settings(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> settings{
      {"recipe", fmt::format("\"{}\"", name(recipe.kind))}};
  if (!recipe.is_on()) return settings;
  settings.emplace_back("skip_quant_first_layers", std::to_string(recipe.skip_first_layers));
  settings.emplace_back("skip_quant_last_layers", std::to_string(recipe.skip_last_layers));
  if (recipe.kind == RecipeKind::fp8_hybrid)
    settings.emplace_back("fp8_scaling", fmt::format("\"{}\"", name(recipe.fp8_scaling)));
  if (recipe.has_history())
    settings.emplace_back("fp8_amax_history", std::to_string(recipe.fp8_amax_history));
  if (recipe.kind == RecipeKind::bitnet)
    settings.emplace_back("bitnet_activation_block", std::to_string(recipe.int8_block));
  return settings;
}

}  // namespace ingot
