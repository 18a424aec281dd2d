#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

void read_bloom(const ConfigFile& file, LanguageConfig& c) {
  file.read("n_embed", c.hidden_size);
  file.read("hidden_size", c.hidden_size);
  file.read("num_hidden_layers", c.num_hidden_layers);  // of files before transformers 4.20
  file.read("n_layer", c.num_hidden_layers);
  file.read("num_attention_heads", c.num_attention_heads);
  file.read("n_head", c.num_attention_heads);
  file.read("seq_length", c.max_position_embeddings);
  file.read("layer_norm_epsilon", c.norm_eps);
  c.intermediate_size = 4 * c.hidden_size;
  bool of_norms = false;
  file.read("apply_residual_connection_post_layernorm", of_norms);
  INGOT_CHECK(!of_norms,
              NotImplemented(file.path() + ": apply_residual_connection_post_layernorm true (false is)"));
}

void write_bloom(const LanguageConfig& c, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"n_layer", c.num_hidden_layers},
                   {"n_head", c.num_attention_heads},
                   {"seq_length", c.max_position_embeddings},
                   {"layer_norm_epsilon", c.norm_eps}});
}

void map_bloom(const LanguageConfig& c, WeightMap& map) {
  map.prefix = "transformer.";
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "transformer.word_embeddings.weight"});
  map_tensor(map, "model.embed_layernorm", "transformer.word_embeddings_layernorm");
  map_tensor(map, "model.norm", "transformer.ln_f");
  const std::string ours = "model.layers.*.", theirs = "transformer.h.*.";
  map_grouped_heads(map, theirs + "self_attention.query_key_value", c);
  for (const auto& [mine, its] : {std::pair{"self_attn.o_proj", "self_attention.dense"},
                                  {"input_layernorm", "input_layernorm"},
                                  {"post_attention_layernorm", "post_attention_layernorm"},
                                  {"mlp.up_proj", "mlp.dense_h_to_4h"},
                                  {"mlp.down_proj", "mlp.dense_4h_to_h"}})
    map_tensor(map, ours + mine, theirs + its);
}

constexpr std::array<GgufNameRule, 10> kBloomNames{
    {{"token_embd", "transformer.word_embeddings"},
     {"token_embd_norm", "transformer.word_embeddings_layernorm"},
     {"output_norm", "transformer.ln_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "transformer.h.*.input_layernorm"},
     {"blk.*.attn_qkv", "transformer.h.*.self_attention.query_key_value", fused_heads},
     {"blk.*.attn_output", "transformer.h.*.self_attention.dense"},
     {"blk.*.ffn_norm", "transformer.h.*.post_attention_layernorm"},
     {"blk.*.ffn_up", "transformer.h.*.mlp.dense_h_to_4h"},
     {"blk.*.ffn_down", "transformer.h.*.mlp.dense_4h_to_h"}}};
constexpr std::array<GgufKeyRule, 5> kBloomKeys{
    {{"context_length", "seq_length"},
     {"embedding_length", "hidden_size"},
     {"block_count", "n_layer"},
     {"attention.head_count", "n_head"},
     {"attention.layer_norm_epsilon", "layer_norm_epsilon", number}}};

}  // namespace

std::vector<LanguageFamily> bloom() {
  return {{.model_type = "bloom",
           .architecture = "BloomForCausalLM",
           .summary = "BLOOM and BLOOMZ: ALiBi, a norm of the embeddings",
           .variants = {"fused query, key and value of each head"},
           .repositories = {"bigscience/bloom-560m", "bigscience/bloomz-7b1"},
           .traits = {.norm = NormKind::layer,
                      .position = PositionKind::alibi,
                      .mlp = MlpKind::gelu,
                      .qkv_bias = true,
                      .attention_output_bias = true,
                      .mlp_bias = true,
                      .embedding_norm = true},
           .tied = true,
           .attention_bias_key = {},
           .own_keys = true,
           .read = read_bloom,
           .write = write_bloom,
           .map_weights = map_bloom,
           .fused_projections = true,
           .gguf = {.architecture = "bloom", .names = kBloomNames, .keys = kBloomKeys}}};
}

}  // namespace ingot::families
