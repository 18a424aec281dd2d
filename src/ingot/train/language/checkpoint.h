#pragma once

#include <map>
#include <string>

#include "ingot/models/language/config.h"
#include "ingot/train/checkpoint_directory.h"

namespace ingot {

namespace text {
class Tokenizer;
}

/// The file of a Checkpoint's tensors that are a language model's weights, by our parameter names.
inline constexpr const char* kModelFile = "model";

/// The file of the adapters' matrices, by our parameter names, where adapters are what trains. The checkpoint
/// is then a directory of PEFT's besides.
inline constexpr const char* kAdapterFile = "adapter_state";

/// The file of what the objective needs to go on beside the data's position: answers that are learned from
/// once more.
inline constexpr const char* kObjectiveFile = "objective";

/// The checkpoint of a language model's training: a model directory that Hugging Face tools open, plus
/// optimizer.safetensors, ema.safetensors (where weights are averaged), trainer_state.json and SHA256SUMS.
struct LanguageCheckpoint {
  LanguageConfig config;
  std::map<std::string, Tensor> weights;    ///< our parameter names
  std::map<std::string, Tensor> optimizer;  ///< Optimizer::state()
  std::map<std::string, Tensor> ema;        ///< empty where no average is kept
  std::string state;                        ///< JSON
};

/// What a run writes as a model: write_language_model, the tokenizer with its chat template, and
/// `generation_config` unless it is empty.
void write_trained_model(const std::string& directory, const LanguageConfig& config,
                         const std::map<std::string, Tensor>& weights, const text::Tokenizer& tokenizer,
                         const std::string& generation_config);

/// Writes the weights in checkpoint.tensors[kModelFile] as a model directory, and the rest beside it.
std::string save_checkpoint(const CheckpointDirectory& directory, std::int64_t step,
                            const Checkpoint& checkpoint, const LanguageConfig& config,
                            const text::Tokenizer& tokenizer, const std::string& generation_config = {});

/// Weights are copies, free to be trained on.
LanguageCheckpoint load_checkpoint(const SavedCheckpoint& saved);

}  // namespace ingot
