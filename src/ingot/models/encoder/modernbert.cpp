#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/encoder/families.h"
#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot::encoders {
namespace {

using Json = nlohmann::ordered_json;

// Which layers slide: layer_types of transformers 5, or all but every n-th before that.
void read_sliding_layers(const ConfigFile& file, EncoderConfig& c) {
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  std::vector<std::string> types;
  file.read("layer_types", types);
  std::int64_t every = 3;
  file.read("global_attn_every_n_layers", every);
  require_size(every, "global_attn_every_n_layers");
  if (types.empty()) {
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.sliding_layers.push_back(i % every != 0);
    return;
  }
  for (const std::string& type : types) {
    require(type == "sliding_attention" || type == "full_attention", "layer_types",
            fmt::format("has '{}'; known are sliding_attention and full_attention", type));
    c.sliding_layers.push_back(type == "sliding_attention");
  }
}

void read_positions(const ConfigFile& file, EncoderConfig& c) {
  RopeKeys rope{.scaling = {}, .theta = 160000, .local_theta = 10000};
  file.read("global_rope_theta", rope.theta);
  file.read("local_rope_theta", rope.local_theta);
  rope.read(file);
  c.rope_theta = rope.theta;
  c.rope_local_theta = rope.local_theta;
  c.rope_scaling = rope.scaling;
  std::int64_t tokens = 128;  // in all, on both sides
  file.read("local_attention", tokens);
  require_size(tokens, "local_attention", kMaxVocabulary);
  c.sliding_window = tokens / 2 + 1;
}

void read_heads(const ConfigFile& file, EncoderConfig& c) {
  c.head_bias = false;
  file.read("classifier_bias", c.head_bias);
  file.read("decoder_bias", c.decoder_bias);
  std::string activation = "gelu", pooling = "cls";
  file.read("classifier_activation", activation);
  c.head_act = parse_activation(activation, "classifier_activation");
  file.read("classifier_pooling", pooling);
  require(pooling == "cls" || pooling == "mean", "classifier_pooling",
          fmt::format("'{}' is not known; choose cls or mean", pooling));
  c.classifier_pooling = pooling == "mean" ? ClassifierPooling::mean : ClassifierPooling::first;
}

void read_modernbert(const ConfigFile& file, EncoderConfig& c) {
  file.read("hidden_size", c.hidden_size);
  file.read("intermediate_size", c.intermediate_size);
  file.read("num_hidden_layers", c.num_hidden_layers);
  file.read("num_attention_heads", c.num_attention_heads);
  c.layer_norm_eps = 1e-5;
  file.read("norm_eps", c.layer_norm_eps);
  read_activation(file, "hidden_activation", c);
  c.type_vocab_size = 0;
  c.norm_first = c.gated_mlp = true;
  c.attention_bias = c.mlp_bias = c.norm_bias = false;
  file.read("attention_bias", c.attention_bias);
  file.read("mlp_bias", c.mlp_bias);
  file.read("norm_bias", c.norm_bias);
  read_sliding_layers(file, c);
  read_positions(file, c);
  read_heads(file, c);
}

void write_modernbert(const EncoderConfig& c, Json& json) {
  Json types = Json::array();
  for (const bool slides : c.sliding_layers) types.push_back(slides ? "sliding_attention" : "full_attention");
  const Json local{{"rope_type", "default"}, {"rope_theta", c.rope_local_theta}};
  json.update(
      Json{{"hidden_size", c.hidden_size},
           {"intermediate_size", c.intermediate_size},
           {"num_hidden_layers", c.num_hidden_layers},
           {"num_attention_heads", c.num_attention_heads},
           {"hidden_activation", act_name(c.hidden_act)},
           {"norm_eps", c.layer_norm_eps},
           {"norm_bias", c.norm_bias},
           {"attention_bias", c.attention_bias},
           {"mlp_bias", c.mlp_bias},
           {"layer_types", types},
           {"local_attention", std::max<std::int64_t>(2 * (c.sliding_window - 1), 1)},
           {"global_rope_theta", c.rope_theta},
           {"local_rope_theta", c.rope_local_theta},
           {"rope_parameters",
            {{"full_attention", rope_to_json(c.rope_scaling, c.rope_theta)}, {"sliding_attention", local}}},
           {"classifier_bias", c.head_bias},
           {"classifier_activation", act_name(c.head_act)},
           {"classifier_pooling", c.classifier_pooling == ClassifierPooling::mean ? "mean" : "cls"},
           {"decoder_bias", c.decoder_bias}});
}

void map_modernbert(const EncoderConfig& c, WeightMap& map) {
  rename(map, "embeddings.word_embeddings", "embeddings.tok_embeddings");
  rename(map, "embeddings.LayerNorm", "embeddings.norm");
  rename_fused(map, "layers.*.attn.Wqkv", c.attention_width(),
               {"attention.self.query", "attention.self.key", "attention.self.value"});
  rename_fused(map, "layers.*.mlp.Wi", c.intermediate_size, {"intermediate.gate", "intermediate.dense"});
  rename_layers(map, "layers.*.",
                {{"attention.output.LayerNorm", "attn_norm"},
                 {"attention.output.dense", "attn.Wo"},
                 {"output.LayerNorm", "mlp_norm"},
                 {"output.dense", "mlp.Wo"}});
}

void map_modernbert_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.dense", "head.dense");
  rename(map, "cls.predictions.transform.LayerNorm", "head.norm");
  map.rules.push_back({.ours = "cls.predictions.bias", .theirs = "decoder.bias"});
  map.outside = {"head.*", "decoder.*"};
  map.ignored.emplace_back("decoder.weight");  // tied to the word embeddings
}

}  // namespace

EncoderFamily modernbert() {
  return {.model_type = "modernbert",
          .class_stem = "ModernBert",
          .summary = "ModernBERT: rotary positions, local and global layers, gated MLPs",
          .variants = {"masked-LM head", "classifier of the first token or of the mean", "scaled global RoPE",
                       "sentence-transformers directories"},
          .repositories = {"answerdotai/ModernBERT-base", "nomic-ai/modernbert-embed-base",
                           "Alibaba-NLP/gte-reranker-modernbert-base"},
          .prefix = "model.",
          .head = "head.dense.weight",
          .classifier = {.dense = "head.dense",
                         .activation = std::nullopt,
                         .norm = "head.norm",
                         .of_tokens = true},
          .defaults = R"({"vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152,
                          "num_hidden_layers": 22, "num_attention_heads": 12,
                          "max_position_embeddings": 8192, "pad_token_id": 50283})",
          .read = read_modernbert,
          .write = write_modernbert,
          .map_encoder = map_modernbert,
          .map_head = map_modernbert_head,
          .gguf = "modern-bert"};
}

}  // namespace ingot::encoders
