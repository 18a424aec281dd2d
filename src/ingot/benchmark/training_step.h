#pragma once

#include <cstdint>
#include <vector>

#include "ingot/models/language/decoder.h"
#include "ingot/train/language/config.h"
#include "ingot/train/language/gradient_step.h"
#include "ingot/train/optimizer_setup.h"

namespace ingot::benchmark {

/// Micro-batches of a step: `count` of [batch, sequence] random tokens.
struct StepBatches {
  std::int64_t batch = 1, sequence = 64, count = 1;

  std::int64_t tokens() const { return batch * sequence * count; }
};

/// A step of a training on random tokens, as LanguageTrainer takes it, of what trains in the model.
class TrainingStep {
 public:
  TrainingStep(LanguageModel& model, const StepBatches& batches, TrainConfig config);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  bool captured() const { return gradients_.captures(); }

  /// Seconds of the gradients, of the update behind them, and of both. On devices with streams the first is
  /// what it takes to put the work into a queue.
  struct Seconds {
    double gradients = 0, update = 0, total = 0;
  };
  Seconds take();

 private:
  Device device_;
  TrainConfig config_;
  TrainOptimizer optimizer_;
  GradientStep gradients_;
  std::vector<data::Batch> batches_;
  std::int64_t step_ = 0;
};

}  // namespace ingot::benchmark
