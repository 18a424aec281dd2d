#pragma once

#include <map>
#include <memory>
#include <string>

#include "ingot/models/adapter/lora_config.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

class ConfigReader;

/// Fine-tuning by low-rank adapters on a frozen base model: LoRA, or QLoRA where the base is quantized.
struct AdapterTraining {
  bool enabled = false;
  LoraConfig lora;
  /// Quantized format of the base ("nf4", "q4_k", ...); "stored": as its file has it; empty: dense.
  std::string base_format;
  std::string start_from;   ///< an adapter to go on from; empty: fresh adapters
  std::int64_t tokens = 0;  ///< that embeddings and head have rows for, at least

  bool quantizes_base() const { return !base_format.empty(); }
  /// Parameters of the adapters on a model of this architecture.
  std::int64_t parameter_count(const LanguageConfig& model) const;
  /// Of these, those on experts.
  std::int64_t expert_parameter_count(const LanguageConfig& model) const;
  /// Bytes of the base in its format, adapters not counted. `dtype`: of what stays dense.
  std::size_t base_bytes(const LanguageConfig& model, DType dtype) const;
  /// Of these, those of experts.
  std::size_t expert_bytes(const LanguageConfig& model, DType dtype) const;
  /// And those of the matrices of layers, which offload_weights moves.
  std::size_t layer_bytes(const LanguageConfig& model, DType dtype) const;
};

/// Reads `adapter`, `lora_r`, `load_in_4bit` and their kin, under axolotl's and Surogate's names.
AdapterTraining read_adapter_training(const ConfigReader& root, const std::string& model);

/// The base model of a run, frozen, in the format that its adapters are trained on. On the CPU its memory is
/// that of its files, or of the cache of prepacked weights, as far as these hold what is needed.
std::unique_ptr<LanguageModel> load_base_model(const std::string& base, const AdapterTraining& adapter,
                                               DType dtype, Device device);

/// The base model of a run with adapters on it, of which only these train. Their matrices are those of
/// `saved`, by parameter name, where it is not empty.
std::unique_ptr<LanguageModel> load_adapted_model(const std::string& base, const AdapterTraining& adapter,
                                                  DType dtype, Device device, std::uint64_t seed,
                                                  const std::map<std::string, Tensor>& saved);

/// What trains, by name.
std::map<std::string, Tensor> trained_parameters(LanguageModel& model);

/// Writes the adapters as PEFT reads them, with `values` (trained_parameters()) instead of the model's
/// own where it is not empty.
void write_trained_adapter(const std::string& directory, LanguageModel& model, const AdapterTraining& adapter,
                           const std::map<std::string, Tensor>& values);

}  // namespace ingot
