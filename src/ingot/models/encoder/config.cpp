#include "ingot/models/encoder/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/models/registry.h"
#include "ingot/models/require.h"

namespace ingot {
namespace {

constexpr std::string_view kBertDefaults =
    R"({"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072})";

// transformers' names of the activations.
std::string_view act_name(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh:
      return "gelu_new";
    default:
      return name(activation);
  }
}

}  // namespace

void EncoderConfig::validate() const {
  require_size(num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  require_size(vocab_size, "vocab_size", kMaxVocabulary);
  require_size(hidden_size, "hidden_size");
  require_size(intermediate_size, "intermediate_size");
  require_size(num_attention_heads, "num_attention_heads");
  require_size(max_position_embeddings, "max_position_embeddings", kMaxVocabulary);
  require_size(type_vocab_size, "type_vocab_size", kMaxVocabulary);
  INGOT_CHECK(hidden_size % num_attention_heads == 0,
              InvalidConfig("num_attention_heads", fmt::format("{} does not divide hidden_size {}",
                                                               num_attention_heads, hidden_size)));
  INGOT_CHECK(layer_norm_eps > 0,
              InvalidConfig("layer_norm_eps", fmt::format("must be positive, got {}", layer_norm_eps)));
}

EncoderConfig EncoderConfig::from_json(std::string_view text, const std::string& path) {
  ConfigFile file(text, path);
  EncoderConfig config;
  config.model_type.clear();
  file.read("model_type", config.model_type);
  if (config.model_type.empty() && path.ends_with(kGoogleBertConfig)) config.model_type = "bert";
  if (config.model_type != "bert") throw_unsuitable_model(config.model_type, ModelTask::embed, path);
  file = file.over(kBertDefaults);
  file.read("vocab_size", config.vocab_size);
  file.read("hidden_size", config.hidden_size);
  file.read("intermediate_size", config.intermediate_size);
  file.read("num_hidden_layers", config.num_hidden_layers);
  file.read("num_attention_heads", config.num_attention_heads);
  file.read("max_position_embeddings", config.max_position_embeddings);
  file.read("type_vocab_size", config.type_vocab_size);
  file.read("layer_norm_eps", config.layer_norm_eps);
  file.read("initializer_range", config.initializer_range);
  file.read("pad_token_id", config.pad_token_id);
  file.read_dtype(config.dtype);
  std::string activation = "gelu", positions = "absolute";
  file.read("hidden_act", activation);
  file.read("position_embedding_type", positions);
  config.hidden_act = parse_activation(activation, "hidden_act");
  bool decoder = false, tied = true;
  file.read("is_decoder", decoder);
  file.read("tie_word_embeddings", tied);
  INGOT_CHECK(!decoder && tied && positions == "absolute",
              NotImplemented(path + ": a BERT with is_decoder, with tie_word_embeddings off or with "
                                    "position_embedding_type other than absolute"));
  config.validate();
  return config;
}

std::string EncoderConfig::to_json() const {
  const char* architecture =
      masked_lm_head ? (pooler ? "BertForPreTraining" : "BertForMaskedLM") : "BertModel";
  const nlohmann::ordered_json json{{"architectures", {architecture}},
                                    {"model_type", model_type},
                                    {"vocab_size", vocab_size},
                                    {"hidden_size", hidden_size},
                                    {"intermediate_size", intermediate_size},
                                    {"num_hidden_layers", num_hidden_layers},
                                    {"num_attention_heads", num_attention_heads},
                                    {"max_position_embeddings", max_position_embeddings},
                                    {"type_vocab_size", type_vocab_size},
                                    {"layer_norm_eps", layer_norm_eps},
                                    {"hidden_act", act_name(hidden_act)},
                                    {"initializer_range", initializer_range},
                                    {"pad_token_id", pad_token_id},
                                    {"torch_dtype", torch_name(dtype)}};
  return dump_json(json, 2) + "\n";
}

}  // namespace ingot
