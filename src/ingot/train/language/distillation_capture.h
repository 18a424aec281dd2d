#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ingot/train/language/config.h"
#include "ingot/train/language/teacher_logprobs.h"

namespace ingot {

/// Runs the configuration's kd_teacher over its training data and writes the `top_k` most probable tokens of
/// each target to `directory`, for kd_logprobs. `progress` hears how many sequences of how many are done.
CaptureInfo capture_logprobs(const TrainConfig& config, const std::string& directory, std::int64_t top_k,
                             const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace ingot
