#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/autograd/grad_buckets.h"
#include "ingot/core/graph_cache.h"
#include "ingot/models/language/decoder.h"
#include "ingot/train/data_parallel.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/device_batches.h"
#include "ingot/train/language/distillation.h"
#include "ingot/train/task.h"

namespace ingot {

/// What a run adds to the loss of a model of this architecture.
LossOptions loss_options(const TrainConfig& config, const LanguageConfig& model);

/// The part of an optimizer step that comes before the weights change: forward and backward passes over its
/// micro-batches, and the norm of the gradients. It is put into the device's stream; the host waits for
/// nothing.
///
/// With several ranks each does its share of the micro-batches (train/data_parallel.h) and all have the sums.
///
/// With config.cuda_graphs the second step with the same micro-batches is captured, and the recording runs
/// from then on. Models that decide on the host what to do (RoPE whose tables depend on the sequence) or draw
/// random numbers, which a recording would repeat, are never captured.
class GradientStep {
 public:
  /// `distillation`: where the loss comes from; null: the model's own. It outlives this.
  GradientStep(LanguageModel& model, TrainOptimizer& optimizer, const TrainConfig& config,
               dist::Communicator& communicator, const Distillation* distillation = nullptr);

  /// `batches`: the micro-batches of all ranks. Leaves the gradients with the parameters. `step`, counted
  /// from 0, names the streams of random numbers. The metrics are the loss of each micro-batch, whose sum is
  /// the mean over the targets of the step in nats per token, then the norm of the gradients before clipping.
  StepWork run(std::span<const data::Batch> batches, std::int64_t step);
  bool captures() const { return captures_; }

 private:
  std::vector<data::Batch> own_batches(std::span<const data::Batch> batches) const;
  void forward_backward(std::span<const data::Batch> batches, std::int64_t step);
  const data::Batch& batch_of_round(std::span<const data::Batch> round) const;
  bool runs(const data::Batch& batch, std::span<const data::Batch> round) const;
  void backward_of(std::size_t round, const data::Batch& batch, std::size_t micro_batch, std::int64_t step,
                   bool is_own);
  Tensor loss(std::size_t round, const data::Batch& batch) const;
  Tensor metric(std::size_t i) const;
  struct Results {  // that a recording writes each time it runs
    std::vector<Tensor> gradients;
    Tensor grad_scale;
  };
  Results results() const;
  void restore(const Results& results);

  LanguageModel& model_;
  TrainOptimizer& optimizer_;
  const TrainConfig& config_;
  const Distillation* distillation_;
  std::size_t ranks_, rank_;
  DeviceBatches batches_;  // of this rank
  Tensor metrics_;
  Tensor grad_scale_;
  bool captures_;
  std::optional<GradBuckets> fixed_gradients_;  // every captured graph writes to the same memory
  std::unique_ptr<DataParallel> parallel_;      // null: gradients add up as they come
  RopeTables rope_;                             // what recordings read stays alive
  GraphCache recordings_;
  std::map<std::string, Results> recorded_;
};

}  // namespace ingot
