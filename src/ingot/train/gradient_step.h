#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ingot/core/transfer.h"
#include "ingot/core/work_cache.h"
#include "ingot/models/language/decoder.h"
#include "ingot/train/device_batches.h"
#include "ingot/train/optimizer_setup.h"

namespace ingot {

/// What a step tells about itself.
struct StepFigures {
  double loss = 0;       ///< mean over the targets of the step, nats per token
  double grad_norm = 0;  ///< before clipping
};

/// The part of an optimiser step that comes before the weights change: forward and backward passes over its
/// micro-batches, and the norm of the gradients. It is put into the device's stream; the host waits for
/// nothing but the figures, and only in take(), one or two steps later if it likes.
///
/// With config.cuda_graphs the second step with the same micro-batches is captured, and the recording runs
/// from then on. Models that decide on the host what to do (RoPE whose tables depend on the sequence) or draw
/// random numbers, which a recording would repeat, are never captured.
class GradientStep {
 public:
  static constexpr std::int64_t kMostRunning = 2;  ///< run() without take()

  GradientStep(LanguageModel& model, TrainOptimizer& optimizer, const TrainConfig& config);

  /// Leaves the gradients with the parameters. `step`, counted from 0, names the streams of random numbers.
  void run(std::span<const data::Batch> batches, std::int64_t step);
  /// What the optimiser multiplies gradients with; undefined without clipping.
  const Tensor& grad_scale() const { return grad_scale_; }
  /// The figures of the earliest run() whose were not taken; waits for its gradients, not for later work.
  StepFigures take();
  bool captures() const { return captures_; }

 private:
  void forward_backward(std::span<const data::Batch> batches, std::int64_t step);
  Tensor figure(std::size_t i) const;
  struct Results {  // that a recording writes each time it runs
    std::vector<Tensor> gradients;
    Tensor grad_scale;
  };
  Results results() const;
  void restore(const Results& results);

  LanguageModel& model_;
  TrainOptimizer& optimizer_;
  const TrainConfig& config_;
  DeviceBatches batches_;
  Tensor figures_;  // f32: the loss of each micro-batch, then the norm
  std::array<Download, kMostRunning> downloads_;
  std::int64_t started_ = 0, taken_ = 0;
  Tensor grad_scale_;
  bool captures_;
  RopeTables rope_;  // what recordings read stays alive
  WorkCache recordings_;
  std::map<std::string, Results> recorded_;
};

}  // namespace ingot
