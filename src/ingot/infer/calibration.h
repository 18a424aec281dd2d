#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ingot/models/language/decoder.h"
#include "ingot/weights/importance_matrix.h"

namespace ingot::infer {

struct CalibrationOptions {
  std::int64_t window = 512;  ///< tokens that the model sees at once; windows do not overlap
};

/// Runs a text through a model and sums up the squares of what each matrix is multiplied with, for rounding
/// that spares the columns that matter. The model's matrices must be dense ("f32"). `on_progress` gets the
/// tokens done. InvalidConfig for a window beyond the model's context, or a family that GGUF files do not
/// have; DimensionMismatch for a text shorter than a window.
ImportanceMatrix measure_importance(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                    const CalibrationOptions& options = {},
                                    const std::function<void(std::int64_t)>& on_progress = {});

}  // namespace ingot::infer
