#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ingot/models/language/config.h"

namespace ingot {

/// What sets a family of decoders apart from Llama: a row of the table in family.cpp. What its checkpoints
/// call their tensors stands in weight_map.cpp.
struct LanguageFamily {
  std::string_view model_type;    ///< as config.json has it
  std::string_view architecture;  ///< transformers' class
  NormKind norm = NormKind::rms;
  PositionKind position = PositionKind::rope;
  MlpKind mlp = MlpKind::swiglu;
  bool qkv_bias = false, attention_output_bias = false, mlp_bias = false;
  bool qk_norm = false;
  bool norm_unit_offset = false, post_norms = false, embedding_scale = false;
  bool experts = false;  ///< its layers are mixtures of experts
  bool tied = false;     ///< transformers' default of tie_word_embeddings
  std::int64_t sliding_pattern =
      0;  ///< every n-th layer sees all where config.json does not list layer_types
  std::string_view defaults = "{}";  ///< JSON: what transformers assumes where config.json is silent
};

std::span<const LanguageFamily> language_families();

/// Null where there is none.
const LanguageFamily* find_language_family(std::string_view model_type);
/// Throws InvalidConfig for `where`, with the nearest and the known ones.
const LanguageFamily& language_family(const std::string& model_type, const std::string& where);

}  // namespace ingot
