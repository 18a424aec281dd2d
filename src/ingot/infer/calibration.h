#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

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

/// Σ xᵀx over the inputs x of a text to each linear layer, for GPTQ: as many layers at a time as `memory`
/// bytes hold, so a large model runs over the text several times. Not for use by several threads.
class LayerProducts {
 public:
  /// The model's matrices must be dense ("f32"). Throws as measure_importance does.
  LayerProducts(const LanguageModel& model, std::vector<std::int32_t> tokens, CalibrationOptions options,
                std::uint64_t memory = std::uint64_t{4} << 30);
  /// f32 [in, in] by the name of the weight in checkpoints ("model.layers.0.mlp.up_proj.weight"); undefined
  /// for what is not such a layer, and for experts.
  Tensor of(const std::string& weight);

 private:
  void measure_from(std::size_t layer);

  const LanguageModel& model_;
  std::vector<std::int32_t> tokens_;
  CalibrationOptions options_;
  std::uint64_t memory_;
  std::vector<std::string> layers_;               // our names, in the order of their use
  std::map<std::string, std::size_t> by_theirs_;  // a checkpoint's name: index in layers_
  std::map<std::string, Tensor> products_;        // of the last pass, by our names
};

}  // namespace ingot::infer
