#include "ingot/nn/recipe/recipe_state.h"

#include <memory>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/nn/recipe/operand_rounding.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {

RecipeState::RecipeState(const Recipe& recipe,
                         const std::vector<std::pair<std::string, LinearWeight*>>& weights)
    : recipe_(recipe) {
  recipe.validate();
  INGOT_CHECK(!weights.empty(),
              InvalidConfig("recipe", fmt::format("{} finds no linear layer to round in this model",
                                                  name(recipe.kind))));
  const NoGrad no_grad;
  const auto count = static_cast<std::int64_t>(weights.size());
  const Device device = weights.front().second->device();
  if (recipe.has_history()) {
    input_scale_ = Tensor::zeros({count}, DType::f32, device) + 1.0;
    input_amax_ = Tensor::zeros({count}, DType::f32, device);
    history_ = Tensor::zeros({recipe.fp8_amax_history, count}, DType::f32, device);
  }
  for (const auto& [name, weight] : weights) {
    const auto at = static_cast<std::int64_t>(names_.size());
    names_.push_back(name);
    WeightRecipe of{.recipe = recipe, .input_scale = {}, .input_amax = {}};
    if (recipe.has_history()) {
      of.input_scale = narrow(input_scale_, 0, at, 1);
      of.input_amax = narrow(input_amax_, 0, at, 1);
    }
    weight->recipe = std::make_shared<const WeightRecipe>(std::move(of));
  }
}

void RecipeState::end_step() {
  if (!recipe_.has_history()) return;
  const NoGrad no_grad;
  const std::int64_t kept = recipe_.fp8_amax_history - 1;
  const std::vector<Tensor> rows{unsqueeze(input_amax_, 0), narrow(history_, 0, 0, kept)};
  copy_(history_, kept == 0 ? clone(rows.front()) : concat(rows, 0));
  copy_(input_scale_, fp8_scale(max(history_, {0}), DType::f8e4m3, input_scale_));
  copy_(input_amax_, Tensor::zeros(input_amax_.shape(), DType::f32, input_amax_.device()));
}

std::map<std::string, Tensor> RecipeState::state() const {
  if (!recipe_.has_history()) return {};
  return {{"input_scale", input_scale_}, {"amax_history", history_}};
}

void RecipeState::load(const std::map<std::string, Tensor>& state) {
  for (const auto& [name, own] : this->state()) {
    const auto found = state.find(name);
    INGOT_CHECK(
        found != state.end() && found->second.shape() == own.shape(),
        InvalidConfig("recipe",
                      fmt::format("the checkpoint's {} is {}, but {} of {} weights with "
                                  "fp8_amax_history {} has {}; give the recipe that the "
                                  "run was begun with",
                                  name, found == state.end() ? "missing" : to_string(found->second.shape()),
                                  ingot::name(recipe_.kind), size(), recipe_.fp8_amax_history,
                                  to_string(own.shape()))));
    copy_(own, to(found->second, own.device()));
  }
}

}  // namespace ingot
