#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/nn/parameter.h"

namespace ingot {

/// A running average of weights: average += (1 - decay) * (weight - average) after each step, in f32. With
/// `warmup`, decay starts low, as min(decay, (1 + t) / (10 + t)), so that the first weights are soon
/// forgotten.
struct EmaConfig {
  double decay = 0.999;
  bool warmup = false;
  void validate() const;
};

class Ema {
 public:
  /// Starts from the present weights.
  Ema(std::vector<Parameter*> parameters, const EmaConfig& config);
  /// Call after every optimizer step.
  void update();
  /// Exchanges weights and averages, to evaluate or save with the averages; call again to go back. In half
  /// types the weights come back exactly; averages are rounded while they stand in the model, not in here.
  void swap();
  bool swapped() const { return swapped_; }

  /// For checkpoints: "NAME.ema" and "ema.step". Not while swapped.
  std::map<std::string, Tensor> state() const;
  /// Throws Error that names what is missing or of another shape.
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  std::vector<Parameter*> parameters_;
  EmaConfig config_;
  std::vector<Tensor> averages_;
  std::vector<Tensor> weights_;  // while swapped
  std::int64_t steps_ = 0;
  bool swapped_ = false;
};

}  // namespace ingot
