#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/encoder/families.h"
#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot::encoders {
namespace {

using Json = nlohmann::ordered_json;

// What nomic-ai's own files may ask for and Ingot does not compute.
void refuse_variants(const ConfigFile& file) {
  for (const char* key :
       {"prenorm", "parallel_block", "causal", "use_rms_norm", "rotary_emb_interleaved", "qkv_proj_bias",
        "mlp_fc1_bias", "mlp_fc2_bias", "scale_attn_by_inverse_layer_idx"}) {
    bool on = false;
    file.read(key, on);
    INGOT_CHECK(!on, NotImplemented(fmt::format("{}: {} in a nomic_bert model", file.path(), key)));
  }
  std::int64_t experts = 0;
  file.read("num_experts", experts);
  INGOT_CHECK(experts == 0, NotImplemented(fmt::format("{}: num_experts {} in a nomic_bert model (0 is)",
                                                       file.path(), experts)));
  for (const char* key : {"rotary_emb_scale_base", "rotary_scaling_factor"}) {
    INGOT_CHECK(!file.has(key),
                NotImplemented(fmt::format("{}: {} in a nomic_bert model (null is)", file.path(), key)));
  }
  double fraction = 1;
  file.read("rotary_emb_fraction", fraction);
  INGOT_CHECK(fraction == 1, NotImplemented(fmt::format("{}: rotary_emb_fraction {} in a nomic_bert model "
                                                        "(1 is)",
                                                        file.path(), fraction)));
}

// The keys of nomic-ai's releases, which are GPT-2's.
void read_release(const ConfigFile& file, EncoderConfig& c, double& rope_theta) {
  refuse_variants(file);
  file.read("n_embd", c.hidden_size);
  file.read("n_inner", c.intermediate_size);
  file.read("n_layer", c.num_hidden_layers);
  file.read("n_head", c.num_attention_heads);
  file.read("n_positions", c.max_position_embeddings);
  file.read("layer_norm_epsilon", c.layer_norm_eps);
  file.read("rotary_emb_base", rope_theta);
  std::string activation = "swiglu";
  file.read("activation_function", activation);
  require(activation == "swiglu" || activation == "geglu", "activation_function",
          fmt::format("'{}' is not known in a nomic_bert model; known are swiglu and geglu", activation));
  c.hidden_act = c.head_act = activation == "geglu" ? Activation::gelu : Activation::silu;
}

void read_nomic_bert(const ConfigFile& file, EncoderConfig& c) {
  RopeKeys rope{.scaling = {}, .theta = 1000};
  c.gated_mlp = true;
  c.attention_bias = c.mlp_bias = false;
  file.read("type_vocab_size", c.type_vocab_size);
  if (file.has("n_embd")) {
    read_release(file, c, rope.theta);
  } else {
    file.read("hidden_size", c.hidden_size);
    file.read("intermediate_size", c.intermediate_size);
    file.read("num_hidden_layers", c.num_hidden_layers);
    file.read("num_attention_heads", c.num_attention_heads);
    file.read("head_dim", c.attention_head_size);
    file.read("layer_norm_eps", c.layer_norm_eps);
    std::string activation = "silu";
    file.read("hidden_act", activation);
    c.hidden_act = c.head_act = parse_activation(activation);
  }
  rope.read(file);
  c.rope_theta = rope.theta;
  c.rope_scaling = rope.scaling;
}

// As transformers writes it.
void write_nomic_bert(const EncoderConfig& c, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"intermediate_size", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"head_dim", c.head_dim()},
                   {"type_vocab_size", c.type_vocab_size},
                   {"layer_norm_eps", c.layer_norm_eps},
                   {"hidden_act", act_name(c.hidden_act)},
                   {"rope_parameters", rope_to_json(c.rope_scaling, c.rope_theta)}});
}

void map_nomic_bert(const EncoderConfig& c, WeightMap& map) {
  map.spellings.push_back({"bert.", "nomic_bert.", true, ""});
  rename(map, "embeddings.LayerNorm", "emb_ln");
  rename_fused(map, "encoder.layers.*.attn.Wqkv", c.attention_width(),
               {"attention.self.query", "attention.self.key", "attention.self.value"});
  rename_layers(map, "encoder.layers.*.",
                {{"attention.output.dense", "attn.out_proj"},
                 {"attention.output.LayerNorm", "norm1"},
                 {"intermediate.dense", "mlp.fc11"},
                 {"intermediate.gate", "mlp.fc12"},
                 {"output.dense", "mlp.fc2"},
                 {"output.LayerNorm", "norm2"}});
}

void map_nomic_bert_head(WeightMap& map) {
  rename(map, "cls.predictions.transform.LayerNorm", "cls.predictions.transform.layer_norm");
  map.outside = {"cls.*"};
  map.ignored.insert(map.ignored.end(), {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"});
}

}  // namespace

EncoderFamily nomic_bert() {
  return {
      .model_type = "nomic_bert",
      .class_stem = "NomicBert",
      .summary = "Nomic BERT: BERT with rotary positions and SwiGLU, and sentence embeddings made with it",
      .variants = {"masked-LM head", "classifier", "keys of nomic-ai's releases, or of transformers",
                   "sentence-transformers directories"},
      .repositories = {"nomic-ai/nomic-embed-text-v1", "nomic-ai/nomic-embed-text-v1.5",
                       "nomic-ai/nomic-bert-2048"},
      .prefix = "nomic_bert.",
      .head = "cls.predictions.transform.dense.weight",
      .defaults = R"({"vocab_size": 30528, "hidden_size": 768, "intermediate_size": 3072,
                          "num_hidden_layers": 12, "num_attention_heads": 12,
                          "max_position_embeddings": 2048})",
      .read = read_nomic_bert,
      .write = write_nomic_bert,
      .map_encoder = map_nomic_bert,
      .map_head = map_nomic_bert_head,
      .gguf = "nomic-bert"};
}

}  // namespace ingot::encoders
