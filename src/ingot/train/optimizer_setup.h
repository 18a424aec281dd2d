#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/tensor.h"
#include "ingot/nn/visit.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/ema.h"
#include "ingot/optim/optimizer.h"
#include "ingot/optim/schedule.h"
#include "ingot/train/offloaded_gradients.h"
#include "ingot/train/offloaded_weights.h"
#include "ingot/train/optimizer_shard.h"
#include "ingot/train/weight_shards.h"

namespace ingot {

struct OptimizerConfig {
  std::string name = "adamw";  ///< "adamw", "adamw_8bit", "adam", "sgd", "muon", "normuon"
  double learning_rate = 2e-4;
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double momentum = 0.9;  ///< sgd
  bool nesterov = false;  ///< sgd
  double muon_momentum = 0.95;
  double normuon_beta2 = 0.95;
  double max_grad_norm = 1.0;         ///< 0: no clipping
  Offload offload = Offload::none;    ///< where the state is between steps
  Offload gradients = Offload::none;  ///< where gradients are until the step
};

/// Optimizer, schedule, clipping and averaged weights, as one object to step.
class TrainOptimizer {
 public:
  /// `ema_decay` 0: no average of the weights is kept. `ranks`: those that share the optimizer's state out.
  /// `offload_directory`: of what config.offload and config.gradients put on the disk.
  TrainOptimizer(ModuleRef model, const OptimizerConfig& config, LrSchedule schedule, double ema_decay = 0,
                 const std::optional<OptimizerShard::Options>& ranks = std::nullopt,
                 const std::string& offload_directory = "");

  /// The learning rate of step `step`, counted from 0.
  double learning_rate(std::int64_t step) const;
  /// Multiplies what the schedule says, from here on.
  void set_lr_factor(double factor) { lr_factor_ = factor; }
  /// The global norm of the gradients, on their device, and the factor that brings it to max_grad_norm
  /// (undefined without clipping).
  ClippedNorm measure_gradients() const;
  /// The norm of the gradients of some parameters, where ranks do not share the state out.
  Tensor norm_of(std::span<Parameter* const> some) const;
  /// Changes the weights by the gradients, multiplied with `grad_scale` unless that is undefined, and drops
  /// them.
  void apply(std::int64_t step, const Tensor& grad_scale);
  /// Steps block by block, with the weights of each on the device. Outlives this.
  void set_offloaded(OffloadedWeights& weights) { blocks_ = &weights; }
  /// What every rank has and trains: all but experts that ranks share out.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// This rank's part, where ranks share the state out; else null. It takes the gradients, and every rank
  /// calls measure_gradients() and apply().
  OptimizerShard* shard() const { return shard_.get(); }
  /// The weights of blocks, where ranks share out what trains of them; else null.
  WeightShards* weights() const { return weights_.get(); }
  /// The thread that ranks communicate on while a step computes; null: one of the caller's.
  dist::Background* background() const { return shard_ != nullptr ? shard_->background() : nullptr; }

  /// Whether state or weights are memory of the host, which the next step changes at once.
  bool is_offloaded() const { return offloaded_ || blocks_ != nullptr; }
  bool has_ema() const { return ema_ != nullptr; }
  /// Runs `f` with the averaged weights swapped in: on every rank.
  void with_ema(FunctionRef<void()> f);
  /// Leaves the averages in the weights' memory: the last call.
  void take_ema() { swap_ema(); }

  /// Of the parameters, or of this rank's part of them, by names that ranks do not share.
  std::map<std::string, Tensor> state() const;
  /// The averages by parameter name; empty without averaging. Every rank calls it; where ranks share the
  /// state out, the first one gets them.
  std::map<std::string, Tensor> ema_weights() const;
  /// For checkpoints, with their count, named as state() is; empty without averaging.
  std::map<std::string, Tensor> ema_state() const;
  /// The state of whole parameters, as state() and ema_state() give it or assemble_state().
  void load_state(const std::map<std::string, Tensor>& optimizer, const std::map<std::string, Tensor>& ema);

 private:
  void swap_ema();
  void take_over_parts();

  std::vector<Parameter*> parameters_;
  std::unique_ptr<OptimizerShard> shard_;
  std::unique_ptr<WeightShards> weights_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
  LrSchedule schedule_;
  double max_grad_norm_;
  double lr_factor_ = 1;
  bool offloaded_;
  std::unique_ptr<OffloadedGradients> offloaded_gradients_;
  OffloadedWeights* blocks_ = nullptr;  // where what trains is moved
};

}  // namespace ingot
