#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

void read_gpt_neox(const ConfigFile& file, LanguageConfig& c) {
  // Names of files before transformers 5.
  file.read("rotary_emb_base", c.rope_theta);
  file.read("rotary_pct", c.partial_rotary_factor);
  bool parallel = true;
  file.read("use_parallel_residual", parallel);
  c.norm_placement = parallel ? NormPlacement::parallel_two : NormPlacement::pre;
}

void write_gpt_neox(const LanguageConfig& c, Json& json) {
  json["use_parallel_residual"] = c.norm_placement == NormPlacement::parallel_two;
  json.erase("num_key_value_heads");
  json.erase("head_dim");
}

// Query, key and value of each head stand one below the other.
void map_gpt_neox(const LanguageConfig& c, WeightMap& map) {
  map.prefix = "gpt_neox.";
  map.outside.emplace_back("embed_out.*");
  map.ignored.insert(map.ignored.end(),
                     {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"});
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "gpt_neox.embed_in.weight"});
  map.rules.push_back({.ours = "lm_head.weight", .theirs = "embed_out.weight"});
  map_tensor(map, "model.norm", "gpt_neox.final_layer_norm");
  const std::string ours = "model.layers.*.", theirs = "gpt_neox.layers.*.";
  map_grouped_heads(map, theirs + "attention.query_key_value", c);
  for (const auto& [mine, its] : {std::pair{"self_attn.o_proj", "attention.dense"},
                                  {"input_layernorm", "input_layernorm"},
                                  {"post_attention_layernorm", "post_attention_layernorm"},
                                  {"mlp.up_proj", "mlp.dense_h_to_4h"},
                                  {"mlp.down_proj", "mlp.dense_4h_to_h"}})
    map_tensor(map, ours + mine, theirs + its);
}

void read_gptj(const ConfigFile& file, LanguageConfig& c) {
  file.read("n_embd", c.hidden_size);
  file.read("n_layer", c.num_hidden_layers);
  file.read("n_head", c.num_attention_heads);
  file.read("n_positions", c.max_position_embeddings);
  file.read("n_inner", c.intermediate_size);
  file.read("layer_norm_epsilon", c.norm_eps);
  if (c.intermediate_size == 0) c.intermediate_size = 4 * c.hidden_size;
  std::string activation = "gelu_new";
  file.read("activation_function", activation);
  INGOT_CHECK(activation == "gelu_new" || activation == "gelu_pytorch_tanh",
              NotImplemented(file.path() + ": activation_function '" + activation + "' (gelu_new is)"));
  std::int64_t rotary = 64;
  file.read("rotary_dim", rotary);
  if (c.hidden_size > 0 && c.num_attention_heads > 0)
    c.partial_rotary_factor = static_cast<double>(rotary) * static_cast<double>(c.num_attention_heads) /
                              static_cast<double>(c.hidden_size);
}

void write_gptj(const LanguageConfig& c, Json& json) {
  json.update(Json{{"n_embd", c.hidden_size},
                   {"n_layer", c.num_hidden_layers},
                   {"n_head", c.num_attention_heads},
                   {"n_positions", c.max_position_embeddings},
                   {"n_inner", c.intermediate_size},
                   {"layer_norm_epsilon", c.norm_eps},
                   {"rotary_dim", c.rotary_size()},
                   {"activation_function", "gelu_new"}});
}

void map_gptj(const LanguageConfig& /*config*/, WeightMap& map) {
  map.prefix = "transformer.";
  map.ignored.insert(map.ignored.end(), {"*.attn.bias", "*.attn.masked_bias"});
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "transformer.wte.weight"});
  map_tensor(map, "model.norm", "transformer.ln_f");
  const std::string ours = "model.layers.*.", theirs = "transformer.h.*.";
  for (const auto& [mine, its] : {std::pair{"self_attn.q_proj", "attn.q_proj"},
                                  {"self_attn.k_proj", "attn.k_proj"},
                                  {"self_attn.v_proj", "attn.v_proj"},
                                  {"self_attn.o_proj", "attn.out_proj"},
                                  {"input_layernorm", "ln_1"},
                                  {"mlp.up_proj", "mlp.fc_in"},
                                  {"mlp.down_proj", "mlp.fc_out"}})
    map_tensor(map, ours + mine, theirs + its);
}

constexpr std::array<GgufNameRule, 9> kNeoxNames{
    {{"token_embd", "gpt_neox.embed_in"},
     {"output_norm", "gpt_neox.final_layer_norm"},
     {"output", "embed_out"},
     {"blk.*.attn_norm", "gpt_neox.layers.*.input_layernorm"},
     {"blk.*.attn_qkv", "gpt_neox.layers.*.attention.query_key_value", fused_heads},
     {"blk.*.attn_output", "gpt_neox.layers.*.attention.dense"},
     {"blk.*.ffn_norm", "gpt_neox.layers.*.post_attention_layernorm"},
     {"blk.*.ffn_up", "gpt_neox.layers.*.mlp.dense_h_to_4h"},
     {"blk.*.ffn_down", "gpt_neox.layers.*.mlp.dense_4h_to_h"}}};
constexpr auto kNeoxKeys =
    kLayerNormKeys +
    std::array<GgufKeyRule, 1>{{{"use_parallel_residual", "use_parallel_residual", boolean}}};

}  // namespace

std::vector<LanguageFamily> gpt_neox() {
  return {{.model_type = "gpt_neox",
           .architecture = "GPTNeoXForCausalLM",
           .summary = "GPT-NeoX and Pythia: attention and MLP side by side, a norm for each",
           .variants = {"side by side or one after another", "attention biases or none",
                        "fused query, key and value of each head"},
           .repositories = {"EleutherAI/pythia-160m", "EleutherAI/gpt-neox-20b"},
           .traits = {.norm = NormKind::layer,
                      .norm_placement = NormPlacement::parallel_two,
                      .mlp = MlpKind::gelu_erf,
                      .qkv_bias = true,
                      .attention_output_bias = true,
                      .mlp_bias = true},
           .defaults = R"({"partial_rotary_factor": 0.25})",
           .norm_eps_key = "layer_norm_eps",
           .read = read_gpt_neox,
           .write = write_gpt_neox,
           .map_weights = map_gpt_neox,
           .fused_projections = true,
           .gguf = {.architecture = "gptneox", .names = kNeoxNames, .keys = kNeoxKeys}},
          {.model_type = "gptj",
           .architecture = "GPTJForCausalLM",
           .summary = "GPT-J: attention and MLP side by side, interleaved partial RoPE",
           .variants = {"rotary parts of any size"},
           .repositories = {"EleutherAI/gpt-j-6b"},
           .traits = {.norm = NormKind::layer,
                      .norm_placement = NormPlacement::parallel,
                      .mlp = MlpKind::gelu,
                      .mlp_bias = true,
                      .interleaved_rope = true,
                      .head_bias = true},
           .own_keys = true,
           .read = read_gptj,
           .write = write_gptj,
           .map_weights = map_gptj}};
}

}  // namespace ingot::families
