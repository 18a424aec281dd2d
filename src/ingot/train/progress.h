#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "ingot/data/loader.h"
#include "ingot/train/config.h"

namespace ingot {

/// How far a run has come: what its checkpoints hold beside tensors.
struct Progress {
  std::int64_t step = 0;
  std::int64_t best_step = -1;
  double best_loss = std::numeric_limits<double>::infinity();
  std::int64_t evaluations_since_best = 0;
  data::DataState data;

  /// Takes in the loss of an evaluation after `step`.
  void note_evaluation(double loss);
  std::string to_json(const TrainConfig& config, std::int64_t total_steps) const;
  /// FormatError naming `path` where this is no such state.
  static Progress from_json(const std::string& text, const std::string& path);
};

}  // namespace ingot
