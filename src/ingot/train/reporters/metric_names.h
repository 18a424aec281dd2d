#pragma once

#include "ingot/train/history.h"

namespace ingot {

/// What trackers are told of a step and of an evaluation, under the names that transformers' Trainer gives:
/// "train/loss", "train/learning_rate", "eval/loss"; "eval/ema_loss" of the averaged weights.
NamedValues tracked_values(const StepRecord& record);
NamedValues tracked_values(const EvalRecord& record);

}  // namespace ingot
