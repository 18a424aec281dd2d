#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/dtype.h"

namespace ingot {

enum class NormKind : std::uint8_t { rms, layer };
enum class PositionKind : std::uint8_t { rope, learned };
enum class MlpKind : std::uint8_t { swiglu, gelu };

/// How a model stretches its rotary positions over a longer context than it was trained on (`rope_scaling`).
struct RopeScaling {
  std::string type = "default";  ///< "default", "linear", "llama3"
  double factor = 1.0;
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  std::int64_t original_max_position_embeddings = 8192;
};

/// A decoder-only language model's architecture. Fields carry the names of Hugging Face's config.json.
struct LanguageConfig {
  std::string model_type = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  ///< 0: as many as num_attention_heads
  std::int64_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  std::int64_t sliding_window = 0;  ///< tokens a query sees, itself included; 0: all before it
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  DType dtype = DType::f32;
  std::int64_t bos_token_id = -1, eos_token_id = -1;  ///< -1: none

  // What sets a family apart; filled from model_type.
  NormKind norm = NormKind::rms;
  PositionKind position = PositionKind::rope;
  MlpKind mlp = MlpKind::swiglu;
  bool qkv_bias = false;
  bool output_bias = false;  ///< of attention's output projection and of the MLP
  bool qk_norm = false;      ///< RMSNorm over each query and key head, before RoPE

  /// Fills the zeros that mean "derive it", then throws InvalidConfig naming the key of anything impossible.
  void validate();
  /// Parameters of the model, tied ones counted once.
  std::int64_t parameter_count() const;
  /// Floating-point operations of one training step per token at context length `sequence`: 6 per matmul
  /// parameter, and attention's causal half.
  double training_flops_per_token(std::int64_t sequence) const;

  /// Reads a config.json; `path` names it in errors. Unknown architectures are refused with the known ones
  /// listed.
  static LanguageConfig from_json(std::string_view text, const std::string& path);
  /// A config.json that transformers opens.
  std::string to_json() const;
};

/// The architectures that LanguageConfig::from_json knows: "llama", "gpt2", ...
std::vector<std::string> known_language_families();

/// Sets the family fields (norm, position, ...) of config.model_type. Throws InvalidConfig for an unknown
/// one.
void apply_family(LanguageConfig& config);

}  // namespace ingot
