#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ingot/nn/linear_weight.h"
#include "ingot/nn/recipe/recipe.h"

namespace ingot {

/// A recipe on some weights of a model, with what it remembers from step to step. The weights keep their
/// recipe when this goes.
class RecipeState {
 public:
  /// Puts the recipe on `weights`, by name, which must outlive what runs with it.
  RecipeState(const Recipe& recipe, const std::vector<std::pair<std::string, LinearWeight*>>& weights);

  const Recipe& recipe() const { return recipe_; }
  std::size_t size() const { return names_.size(); }
  /// The largest magnitude of each weight's input in this step, f32 [size()]; undefined without a history.
  /// Ranks that share a step put the largest of all there before end_step().
  const Tensor& input_amax() const { return input_amax_; }
  /// After a step's passes: the next step's scales come from the largest magnitudes of the last steps.
  void end_step();

  /// What a run needs to go on with the same bits; empty without a history. `load` throws InvalidConfig where
  /// that is not what this recipe has.
  std::map<std::string, Tensor> state() const;
  void load(const std::map<std::string, Tensor>& state);

 private:
  Recipe recipe_;
  std::vector<std::string> names_;
  Tensor input_scale_, input_amax_;  // f32 [size()]
  Tensor history_;                   // f32 [fp8_amax_history, size()], newest first
};

}  // namespace ingot
