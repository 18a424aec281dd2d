#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// Which weights get low-rank adapters, and of what size (LoRA, Hu et al. 2021). Fields carry the names of
/// PEFT's adapter_config.json, and mean the same. Modules are called as the family's checkpoints call them
/// ("model.layers.0.self_attn.q_proj", "transformer.h.0.attn.c_attn").
struct LoraConfig {
  std::int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0;  ///< of the input of each adapter, in training
  bool use_rslora = false;  ///< scale alpha / √r instead of alpha / r (Kalajdzievski 2023)
  bool use_dora = false;    ///< weight-decomposed: a magnitude for each row (Liu et al. 2024)
  /// Modules by name, or by the end of it behind a dot. {"all-linear"}: every linear layer but the head,
  /// those of experts with the others.
  std::vector<std::string> target_modules;
  std::string target_regex;  ///< instead of the list, as PEFT has it: matches a whole name
  std::vector<std::string> exclude_modules;
  /// Stacks of experts by name, or by the end of it behind a dot: "mlp.experts.gate_up_proj".
  std::vector<std::string> target_parameters;
  std::vector<std::int64_t> layers_to_transform;     ///< numbers of layers; empty: all
  std::map<std::string, std::int64_t> rank_pattern;  ///< r of modules whose name ends with the pattern
  std::map<std::string, double> alpha_pattern;       ///< lora_alpha likewise
  std::vector<std::string> modules_to_save;          ///< trained as a whole and kept beside the adapter
  /// Rows of embeddings and heads, by module, that are trained by themselves and kept beside the adapter; by
  /// "" those of the embeddings, whatever their module is called.
  std::map<std::string, std::vector<std::int64_t>> trainable_token_indices;
  std::string base_model_name_or_path;

  /// Reads adapter_config.json. FormatError, or NotImplemented for what changes the result and is not
  /// understood (biases, replicated layers), naming file and key.
  static LoraConfig from_json(std::string_view text, const std::string& path);
  std::string to_json() const;
  /// InvalidConfig that names the key.
  void validate() const;

  /// Whether a module of this name gets an adapter. `is_head`: it makes the logits, or looks tokens up.
  bool targets(const std::string& module, bool is_head) const;
  bool targets_all_linear() const;
  bool targets_parameter(const std::string& name) const;
  bool excludes(const std::string& module) const;
  /// Whether a module of this name is trained as a whole.
  bool saves(const std::string& module) const;
  /// The rows of this module that are trained by themselves.
  std::vector<std::int64_t> token_rows(const std::string& module, bool is_embedding) const;
  std::int64_t rank_of(const std::string& module) const;
  /// What the update of a module with an adapter of this rank is multiplied with.
  float scale_of(const std::string& module, std::int64_t rank) const;
};

}  // namespace ingot
