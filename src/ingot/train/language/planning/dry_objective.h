#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "ingot/models/language/decoder.h"
#include "ingot/train/language/config.h"

namespace ingot {

class Distillation;

/// What config's objective computes for a micro-batch whose rows have config.sequence_len tokens each, on the
/// meta device: with the passes of a reference or a teacher. A reference has the model's own weights here,
/// and what was captured of a teacher is left out. `model` and `config` outlive it.
class DryObjective {
 public:
  DryObjective(const TrainConfig& config, const LanguageModel& model);
  ~DryObjective();
  Tensor loss() const { return loss_(); }

 private:
  std::function<Tensor()> supervised() const;
  std::function<Tensor()> distilled();
  std::function<Tensor()> preferences() const;
  std::function<Tensor()> rewards() const;

  const TrainConfig& config_;
  const LanguageModel& model_;
  std::unique_ptr<Distillation> distillation_;
  std::function<Tensor()> loss_;
};

/// Bytes of keys, values and states of all answers that a GRPO step writes, and of the pass that writes them;
/// 0 for other objectives. Of the model on the meta device.
std::size_t dry_rollout(const TrainConfig& config, const LanguageModel& model);

}  // namespace ingot
