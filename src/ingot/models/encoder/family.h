#pragma once

#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/config_file.h"
#include "ingot/models/encoder/config.h"
#include "ingot/models/weight_map.h"

namespace ingot {

/// What sets a family of encoders apart from BERT: a row in family.cpp.
struct EncoderFamily {
  std::string_view model_type;    ///< as config.json has it
  std::string_view base_class;    ///< transformers' class of the encoder alone
  std::string_view masked_class;  ///< that with a masked-LM head
  std::string_view prefix;        ///< of the encoder's tensors in checkpoints with a head: "roberta."
  std::string_view head;          ///< a tensor of the masked-LM head, which tells that there is one
  /// JSON: what transformers assumes where config.json is silent.
  std::string_view defaults;
  void (*read)(const ConfigFile&, EncoderConfig&);
  void (*write)(const EncoderConfig&, nlohmann::ordered_json&);
  /// Where the encoder's tensors have other names than BERT's, without the prefix; null: nowhere.
  void (*map_encoder)(WeightMap&) = nullptr;
  void (*map_head)(WeightMap&) = nullptr;
};

/// Null where there is none.
const EncoderFamily* find_encoder_family(std::string_view model_type);

}  // namespace ingot
