#include "ingot/models/encoder/family.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

void read_activation(const ConfigFile& file, const char* key, EncoderConfig& config) {
  std::string activation = "gelu";
  file.read(key, activation);
  config.hidden_act = config.head_act = parse_activation(activation, key);
}

// transformers' names of the activations.
std::string_view act_name(Activation activation) {
  return activation == Activation::gelu_tanh ? "gelu_new" : name(activation);
}

void read_bert(const ConfigFile& file, EncoderConfig& c) {
  file.read("hidden_size", c.hidden_size);
  file.read("intermediate_size", c.intermediate_size);
  file.read("num_hidden_layers", c.num_hidden_layers);
  file.read("num_attention_heads", c.num_attention_heads);
  file.read("type_vocab_size", c.type_vocab_size);
  file.read("layer_norm_eps", c.layer_norm_eps);
  read_activation(file, "hidden_act", c);
  std::string positions = "absolute";
  file.read("position_embedding_type", positions);
  bool decoder = false;
  file.read("is_decoder", decoder);
  INGOT_CHECK(!decoder && positions == "absolute",
              NotImplemented(file.path() + ": an encoder with is_decoder, or with position_embedding_type "
                                           "other than absolute"));
}

// Positions start behind that of the padding, and the head has one activation.
void read_roberta(const ConfigFile& file, EncoderConfig& c) {
  read_bert(file, c);
  c.head_act = Activation::gelu;
  c.position_offset = c.pad_token_id + 1;
}

void write_bert(const EncoderConfig& c, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"intermediate_size", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"type_vocab_size", c.type_vocab_size},
                   {"layer_norm_eps", c.layer_norm_eps},
                   {"hidden_act", act_name(c.hidden_act)}});
}

void read_distilbert(const ConfigFile& file, EncoderConfig& c) {
  file.read("dim", c.hidden_size);
  file.read("hidden_dim", c.intermediate_size);
  file.read("n_layers", c.num_hidden_layers);
  file.read("n_heads", c.num_attention_heads);
  read_activation(file, "activation", c);
  c.type_vocab_size = 0;
}

void write_distilbert(const EncoderConfig& c, Json& json) {
  json.update(Json{{"dim", c.hidden_size},
                   {"hidden_dim", c.intermediate_size},
                   {"n_layers", c.num_hidden_layers},
                   {"n_heads", c.num_attention_heads},
                   {"activation", act_name(c.hidden_act)}});
}

void rename(WeightMap& map, const char* ours, const char* theirs) {
  for (const char* kind : {"weight", "bias"}) {
    map.rules.push_back(
        {.ours = fmt::format("{}.{}", ours, kind), .theirs = fmt::format("{}.{}", theirs, kind)});
  }
}

void map_distilbert(WeightMap& map) {
  for (const auto& [ours, theirs] : {std::pair{"attention.self.query", "attention.q_lin"},
                                     {"attention.self.key", "attention.k_lin"},
                                     {"attention.self.value", "attention.v_lin"},
                                     {"attention.output.dense", "attention.out_lin"},
                                     {"attention.output.LayerNorm", "sa_layer_norm"},
                                     {"intermediate.dense", "ffn.lin1"},
                                     {"output.dense", "ffn.lin2"},
                                     {"output.LayerNorm", "output_layer_norm"}}) {
    rename(map, fmt::format("encoder.layer.*.{}", ours).c_str(),
           fmt::format("transformer.layer.*.{}", theirs).c_str());
  }
}

void map_distilbert_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "vocab_transform");
  rename(map, "cls.predictions.transform.LayerNorm", "vocab_layer_norm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "vocab_projector.bias"});
  map.outside = {"vocab_*"};
  map.ignored.emplace_back("vocab_projector.weight");  // tied to the word embeddings
}

void map_bert_head(WeightMap& map) {
  map.outside = {"cls.*"};
  map.ignored.insert(map.ignored.end(), {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"});
}

void map_roberta_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "lm_head.dense");
  rename(map, "cls.predictions.transform.LayerNorm", "lm_head.layer_norm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "lm_head.bias"});
  map.outside = {"lm_head.*"};
  map.ignored.insert(map.ignored.end(), {"lm_head.decoder.weight", "lm_head.decoder.bias"});
}

constexpr std::string_view kRobertaDefaults =
    R"({"vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 1})";

EncoderFamily roberta_like(std::string_view model_type, std::string_view base, std::string_view masked) {
  return {.model_type = model_type,
          .base_class = base,
          .masked_class = masked,
          .prefix = "roberta.",
          .head = "lm_head.dense.weight",
          .defaults = kRobertaDefaults,
          .read = read_roberta,
          .write = write_bert,
          .map_head = map_roberta_head};
}

std::span<const EncoderFamily> families() {
  static const std::array<EncoderFamily, 5> kFamilies{{
      {.model_type = "bert",
       .base_class = "BertModel",
       .masked_class = "BertForMaskedLM",
       .prefix = "bert.",
       .head = "cls.predictions.transform.dense.weight",
       .defaults = R"({"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
                       "num_attention_heads": 12, "intermediate_size": 3072})",
       .read = read_bert,
       .write = write_bert,
       .map_head = map_bert_head},
      roberta_like("roberta", "RobertaModel", "RobertaForMaskedLM"),
      roberta_like("xlm-roberta", "XLMRobertaModel", "XLMRobertaForMaskedLM"),
      roberta_like("camembert", "CamembertModel", "CamembertForMaskedLM"),
      {.model_type = "distilbert",
       .base_class = "DistilBertModel",
       .masked_class = "DistilBertForMaskedLM",
       .prefix = "distilbert.",
       .head = "vocab_transform.weight",
       .defaults = R"({"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072,
                       "max_position_embeddings": 512})",
       .read = read_distilbert,
       .write = write_distilbert,
       .map_encoder = map_distilbert,
       .map_head = map_distilbert_head},
  }};
  return kFamilies;
}

}  // namespace

const EncoderFamily* find_encoder_family(std::string_view model_type) {
  const auto found = std::ranges::find(families(), model_type, &EncoderFamily::model_type);
  return found == families().end() ? nullptr : &*found;
}

}  // namespace ingot
