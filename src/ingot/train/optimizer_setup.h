#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/nn/visit.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/ema.h"
#include "ingot/optim/optimizer.h"
#include "ingot/optim/schedule.h"
#include "ingot/train/config.h"

namespace ingot {

/// The optimiser, schedule, clipping and averaging that a TrainConfig asks for, as one thing to step.
class TrainOptimizer {
 public:
  TrainOptimizer(ModuleRef model, const TrainConfig& config, std::int64_t total_steps);

  /// The learning rate of step `step`, counted from 0.
  double learning_rate(std::int64_t step) const;
  /// The global norm of the gradients, on their device, and the factor that brings it to max_grad_norm
  /// (undefined without clipping).
  ClippedNorm measure_gradients() const;
  /// Changes the weights by the gradients, multiplied with `grad_scale` unless that is undefined, and drops
  /// them.
  void apply(std::int64_t step, const Tensor& grad_scale);
  const std::vector<Parameter*>& parameters() const { return parameters_; }

  bool has_ema() const { return ema_ != nullptr; }
  /// Runs `f` with the averaged weights in place.
  double with_ema(const std::function<double()>& f);

  std::map<std::string, Tensor> state() const { return optimizer_->state(); }
  /// The averages by parameter name, and for checkpoints with their count; empty without averaging.
  std::map<std::string, Tensor> ema_weights() const;
  std::map<std::string, Tensor> ema_state() const;
  void load_state(const std::map<std::string, Tensor>& optimizer, const std::map<std::string, Tensor>& ema);

 private:
  std::vector<Parameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
  LrSchedule schedule_;
  double max_grad_norm_;
};

}  // namespace ingot
