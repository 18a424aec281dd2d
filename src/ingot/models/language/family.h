#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/config_file.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/gguf_names.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// Everything that sets a family of decoders apart from Llama: a row in families/. The forward pass reads its
/// traits, config.json its keys and defaults, checkpoints and GGUF files its names, `ingot models` its words.
struct LanguageFamily {
  std::string_view model_type;                            ///< as config.json has it
  std::string_view architecture;                          ///< transformers' class
  std::vector<std::string_view> more_architectures = {};  ///< of models that hold it as their text part
  /// model_types of such models whose text_config may name none.
  std::vector<std::string_view> text_part_of = {};
  std::string_view summary;                    ///< one line
  std::vector<std::string> variants = {};      ///< what may differ between its checkpoints, and is understood
  std::vector<std::string> repositories = {};  ///< published models of this layout
  DecoderTraits traits = {};
  bool experts = false;               ///< its layers are mixtures of experts
  bool moe_layers_alike = false;      ///< all of them, and as wide as intermediate_size
  bool tied = false;                  ///< transformers' default of tie_word_embeddings
  bool may_be_bidirectional = false;  ///< use_bidirectional_attention is a key of it
  /// Every n-th layer sees all where config.json does not list layer_types; 0: none does.
  std::int64_t sliding_pattern = 0;
  bool ends_with_full = false;      ///< the last layer sees all, whatever layer_types says
  double attention_multiplier = 0;  ///< of its models' scores where no key says; 0: none

  /// JSON: what transformers assumes where config.json is silent.
  std::string_view defaults = "{}";
  std::string_view norm_eps_key = "rms_norm_eps";
  /// The key for biases of query, key, value and output; empty: the traits decide.
  std::string_view attention_bias_key = "attention_bias";
  std::string_view mlp_bias_key = {};  ///< likewise, of the MLP
  std::string_view activation_key = "hidden_act";
  bool own_keys = false;  ///< config.json has none of Llama's keys: `read` and `write` do all
  /// Keys that this family alone has, behind those that all share; null: none.
  void (*read)(const ConfigFile&, LanguageConfig&) = nullptr;
  void (*write)(const LanguageConfig&, nlohmann::ordered_json&) = nullptr;

  /// Where checkpoints name or store tensors in another way than Llama's; null: nowhere.
  void (*map_weights)(const LanguageConfig&, WeightMap&) = nullptr;
  bool inputs_first = false;       ///< checkpoints store linear weights [in, out]
  bool fused_projections = false;  ///< checkpoints store query, key and value in one matrix
  GgufFamily gguf = {};            ///< no architecture: GGUF files do not have this family
};

/// Lists which layers of a model from scratch slide, where its family has a habit and the model a window.
void apply_sliding_pattern(LanguageConfig& config);

/// All of them. The pointers that are given out stay valid.
std::span<const LanguageFamily> language_families();

/// Every `pattern`-th of so many layers sees all; without a pattern, those before `first`.
std::vector<LayerKind> layers_with_windows(std::int64_t layers, std::int64_t pattern, std::int64_t first);

/// Null where there is none.
const LanguageFamily* find_language_family(std::string_view model_type);
/// The family of a config.json: its model_type, or that of the text part of a model that also sees
/// (text_config), where Ingot has it. Empty where the file names none.
std::string text_model_type(std::string_view text, const std::string& path);
/// Throws InvalidConfig for `where`, with the nearest and the known ones.
const LanguageFamily& language_family(const std::string& model_type, const std::string& where);

}  // namespace ingot
