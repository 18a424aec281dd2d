#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// What transformers does not compute either, or would compute otherwise than the program that trained the
// model.
void refuse_others(const ConfigFile& file, const ConfigFile& attention) {
  const auto refuse = [&](const ConfigFile& where, const char* key, bool wanted) {
    bool value = wanted;
    where.read(key, value);
    INGOT_CHECK(value == wanted, NotImplemented(where.path() + ": " + key +
                                                (wanted ? " false (true is)" : " true (false is)")));
  };
  refuse(file, "no_bias", true);
  refuse(attention, "alibi", true);
  refuse(attention, "qk_ln", false);
  refuse(attention, "prefix_lm", false);
  std::string type = "multihead_attention";
  attention.read("attn_type", type);
  INGOT_CHECK(type == "multihead_attention",
              NotImplemented(attention.path() + ": attn_type '" + type + "' (multihead_attention is)"));
  INGOT_CHECK(!file.has("logit_scale"), NotImplemented(file.path() + ": logit_scale (null is)"));
}

void read_mpt(const ConfigFile& file, LanguageConfig& c) {
  file.read("d_model", c.hidden_size);
  file.read("n_layers", c.num_hidden_layers);
  file.read("n_heads", c.num_attention_heads);
  file.read("max_seq_len", c.max_position_embeddings);
  file.read("layer_norm_epsilon", c.norm_eps);
  c.intermediate_size = 4 * c.hidden_size;
  const auto attention = file.object("attn_config");
  refuse_others(file, attention.value_or(file));
  if (!attention.has_value()) return;
  attention->read("clip_qkv", c.clip_qkv);
  attention->read("softmax_scale", c.attention_multiplier);
  attention->read("alibi_bias_max", c.alibi_bias_max);
}

void write_mpt(const LanguageConfig& c, Json& json) {
  Json attention{{"attn_type", "multihead_attention"},
                 {"alibi", true},
                 {"alibi_bias_max", std::lround(c.alibi_bias_max)}};
  attention["clip_qkv"] = c.clip_qkv > 0 ? Json(c.clip_qkv) : Json(nullptr);
  attention["softmax_scale"] = c.attention_multiplier > 0 ? Json(c.attention_multiplier) : Json(nullptr);
  json.update(Json{{"d_model", c.hidden_size},
                   {"n_layers", c.num_hidden_layers},
                   {"n_heads", c.num_attention_heads},
                   {"max_seq_len", c.max_position_embeddings},
                   {"layer_norm_epsilon", c.norm_eps},
                   {"attn_config", attention},
                   {"no_bias", true}});
}

void map_mpt(const LanguageConfig& c, WeightMap& map) {
  map.prefix = "transformer.";
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "transformer.wte.weight"});
  map.rules.push_back({.ours = "model.norm.weight", .theirs = "transformer.norm_f.weight"});
  const std::string ours = "model.layers.*.", theirs = "transformer.blocks.*.";
  const char* const projections[] = {"q_proj", "k_proj", "v_proj"};
  for (std::int64_t i = 0; i < 3; ++i)
    map_tensor(map, ours + "self_attn." + projections[i], theirs + "attn.Wqkv",
               {.first = i * c.hidden_size, .rows = c.hidden_size});
  for (const auto& [mine, its] : {std::pair{"self_attn.o_proj", "attn.out_proj"},
                                  {"input_layernorm", "norm_1"},
                                  {"post_attention_layernorm", "norm_2"},
                                  {"mlp.up_proj", "ffn.up_proj"},
                                  {"mlp.down_proj", "ffn.down_proj"}})
    map_tensor(map, ours + mine, theirs + its);
}

constexpr std::array<GgufNameRule, 9> kMptNames{{{"token_embd", "transformer.wte"},
                                                 {"output_norm", "transformer.norm_f"},
                                                 {"output", "lm_head"},
                                                 {"blk.*.attn_norm", "transformer.blocks.*.norm_1"},
                                                 {"blk.*.attn_qkv", "transformer.blocks.*.attn.Wqkv"},
                                                 {"blk.*.attn_output", "transformer.blocks.*.attn.out_proj"},
                                                 {"blk.*.ffn_norm", "transformer.blocks.*.norm_2"},
                                                 {"blk.*.ffn_up", "transformer.blocks.*.ffn.up_proj"},
                                                 {"blk.*.ffn_down", "transformer.blocks.*.ffn.down_proj"}}};
constexpr std::array<GgufKeyRule, 7> kMptKeys{
    {{"context_length", "max_seq_len"},
     {"embedding_length", "d_model"},
     {"block_count", "n_layers"},
     {"attention.head_count", "n_heads"},
     {"attention.layer_norm_epsilon", "layer_norm_epsilon", number},
     {"attention.clamp_kqv", "attn_config.clip_qkv", number},
     {"attention.max_alibi_bias", "attn_config.alibi_bias_max", number}}};

}  // namespace

std::vector<LanguageFamily> mpt() {
  return {
      {.model_type = "mpt",
       .architecture = "MptForCausalLM",
       .summary = "MPT: ALiBi, no biases",
       .variants = {"fused query, key and value", "clamped queries, keys and values"},
       .repositories = {"mosaicml/mpt-7b", "mosaicml/mpt-30b-instruct"},
       .traits = {.norm = NormKind::layer_no_bias, .position = PositionKind::alibi, .mlp = MlpKind::gelu_erf},
       .tied = true,
       .attention_bias_key = {},
       .own_keys = true,
       .read = read_mpt,
       .write = write_mpt,
       .map_weights = map_mpt,
       .fused_projections = true,
       .gguf = {.architecture = "mpt", .names = kMptNames, .keys = kMptKeys}}};
}

}  // namespace ingot::families
