#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// Three generations: one key for all queries (7B), groups of queries with two norms or one (40B, 11B), and a
// key for each query with ALiBi (RW).
void read_falcon(const ConfigFile& file, LanguageConfig& c) {
  bool grouped = false, multi_query = true, parallel = true, alibi = false;
  std::int64_t norms = 0;
  file.read("new_decoder_architecture", grouped);
  file.read("multi_query", multi_query);
  file.read("parallel_attn", parallel);
  file.read("alibi", alibi);
  file.read("num_ln_in_parallel_attn", norms);
  file.read("n_embed", c.hidden_size);
  file.read("ffn_hidden_size", c.intermediate_size);
  if (c.intermediate_size == 0) c.intermediate_size = 4 * c.hidden_size;
  c.num_key_value_heads = c.num_attention_heads;
  if (grouped) {
    file.read("num_kv_heads", c.num_key_value_heads);
  } else if (multi_query) {
    c.num_key_value_heads = 1;
  }
  require(parallel || !grouped, "parallel_attn", "must be true where new_decoder_architecture is");
  if (norms == 0) norms = grouped ? 2 : 1;
  c.norm_placement = !parallel    ? NormPlacement::pre
                     : norms == 2 ? NormPlacement::parallel_two
                                  : NormPlacement::parallel;
  if (alibi) c.position = PositionKind::alibi;
}

// A model with as many keys as queries is neither grouped nor multi-query.
void write_falcon(const LanguageConfig& c, Json& json) {
  const bool parallel = c.norm_placement != NormPlacement::pre;
  const bool grouped = parallel && c.num_key_value_heads > 1;
  for (const char* key : {"intermediate_size", "num_key_value_heads", "head_dim", "sliding_window"})
    json.erase(key);
  json.update(Json{{"ffn_hidden_size", c.intermediate_size},
                   {"num_kv_heads", c.num_key_value_heads},
                   {"new_decoder_architecture", grouped},
                   {"multi_query", c.num_key_value_heads == 1},
                   {"parallel_attn", parallel},
                   {"num_ln_in_parallel_attn", c.norm_placement == NormPlacement::parallel_two ? 2 : 1},
                   {"alibi", c.position == PositionKind::alibi}});
}

void map_falcon(const LanguageConfig& c, WeightMap& map) {
  map.prefix = "transformer.";
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "transformer.word_embeddings.weight"});
  map_tensor(map, "model.norm", "transformer.ln_f");
  const std::string ours = "model.layers.*.", theirs = "transformer.h.*.";
  const bool two = c.norm_placement == NormPlacement::parallel_two;
  if (two) map.spellings.push_back({".input_layernorm.", ".ln_mlp.", false, ""});  // out of a GGUF file
  map_grouped_heads(map, theirs + "self_attention.query_key_value", c);
  for (const auto& [mine, its] : {std::pair{"self_attn.o_proj", "self_attention.dense"},
                                  {"input_layernorm", two ? "ln_attn" : "input_layernorm"},
                                  {"post_attention_layernorm", two ? "ln_mlp" : "post_attention_layernorm"},
                                  {"mlp.up_proj", "mlp.dense_h_to_4h"},
                                  {"mlp.down_proj", "mlp.dense_4h_to_h"}})
    map_tensor(map, ours + mine, theirs + its);
}

// The second of two norms is attention's.
constexpr std::array<GgufNameRule, 10> kFalconNames{
    {{"token_embd", "transformer.word_embeddings"},
     {"output_norm", "transformer.ln_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "transformer.h.*.input_layernorm"},
     {"blk.*.attn_norm", "transformer.h.*.ln_mlp"},
     {"blk.*.attn_norm_2", "transformer.h.*.ln_attn"},
     {"blk.*.attn_qkv", "transformer.h.*.self_attention.query_key_value", grouped_heads},
     {"blk.*.attn_output", "transformer.h.*.self_attention.dense"},
     {"blk.*.ffn_up", "transformer.h.*.mlp.dense_h_to_4h"},
     {"blk.*.ffn_down", "transformer.h.*.mlp.dense_4h_to_h"}}};
constexpr std::array<GgufKeyRule, 8> kFalconKeys{
    {{"context_length", "max_position_embeddings"},
     {"embedding_length", "hidden_size"},
     {"block_count", "num_hidden_layers"},
     {"feed_forward_length", "ffn_hidden_size"},
     {"attention.head_count", "num_attention_heads"},
     {"attention.head_count_kv", "num_kv_heads"},
     {"attention.layer_norm_epsilon", "layer_norm_epsilon", number},
     {"rope.freq_base", "rope_theta", number}}};

}  // namespace

std::vector<LanguageFamily> falcon() {
  return {
      {.model_type = "falcon",
       .architecture = "FalconForCausalLM",
       .summary = "Falcon 7B, 40B, 180B, 2 11B and RW",
       .variants = {"one key for all heads, groups of heads, or one each",
                    "one norm or two of parallel blocks", "RoPE or ALiBi", "biases or none"},
       .repositories = {"tiiuae/falcon-7b", "tiiuae/falcon-40b", "tiiuae/falcon-11B", "tiiuae/falcon-rw-1b"},
       .traits = {.norm = NormKind::layer,
                  .norm_placement = NormPlacement::parallel,
                  .mlp = MlpKind::gelu_erf,
                  .alibi_before_scale = true},
       .tied = true,
       .defaults = R"({"layer_norm_epsilon": 1e-5})",
       .norm_eps_key = "layer_norm_epsilon",
       .attention_bias_key = "bias",
       .mlp_bias_key = "bias",
       .activation_key = "activation",
       .read = read_falcon,
       .write = write_falcon,
       .map_weights = map_falcon,
       .fused_projections = true,
       .gguf = {.architecture = "falcon", .names = kFalconNames, .keys = kFalconKeys}}};
}

}  // namespace ingot::families
