#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/config_file.h"
#include "ingot/models/encoder/config.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// The layers between what labels are told from and the labels.
struct ClassifierLayout {
  std::string_view dense;  ///< a linear map of the hidden state; empty: the pooler's stands there
  std::optional<Activation> activation = Activation::identity;  ///< behind it; none: config.head_act
  std::string_view out = "classifier";                          ///< the linear map to the labels
  std::string_view norm = {};                                   ///< behind the activation; empty: none
  bool of_tokens = false;  ///< labels of tokens go through `dense`, too, and not only those of texts

  bool has_dense(LabelsOf of) const { return !dense.empty() && (of == LabelsOf::texts || of_tokens); }
};

/// What sets a family of encoders apart from BERT: a row in family.cpp.
struct EncoderFamily {
  std::string_view model_type;  ///< as config.json has it
  /// Transformers' classes without what follows: "Roberta" of RobertaModel, RobertaForMaskedLM, ...
  std::string_view class_stem;
  std::string_view summary;  ///< one line
  std::vector<std::string> variants, repositories;
  std::string_view prefix;  ///< of the encoder's tensors in checkpoints with a head: "roberta."
  std::string_view head;    ///< a tensor of the masked-LM head, which tells that there is one
  std::string_view pooler = "pooler.dense";  ///< its linear map; a name of a text classifier's that has one
  bool pooler_has_prefix = true;             ///< it is a part of the encoder, not of the classifier
  ClassifierLayout classifier;
  /// JSON: what transformers assumes where config.json is silent.
  std::string_view defaults;
  void (*read)(const ConfigFile&, EncoderConfig&);
  void (*write)(const EncoderConfig&, nlohmann::ordered_json&);
  /// Where the encoder's tensors have other names than BERT's, without the prefix; null: nowhere.
  void (*map_encoder)(const EncoderConfig&, WeightMap&) = nullptr;
  void (*map_head)(WeightMap&) = nullptr;
  std::string_view gguf = {};  ///< general.architecture of its GGUF files; empty: llama.cpp has none

  std::string class_name(std::string_view suffix) const {
    return std::string(class_stem) + std::string(suffix);
  }
};

std::span<const EncoderFamily> encoder_families();
/// Null where there is none.
const EncoderFamily* find_encoder_family(std::string_view model_type);

}  // namespace ingot
