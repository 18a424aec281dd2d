#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

void read_gpt2(const ConfigFile& file, LanguageConfig& config) {
  file.read("n_embd", config.hidden_size);
  file.read("n_layer", config.num_hidden_layers);
  file.read("n_head", config.num_attention_heads);
  file.read("n_positions", config.max_position_embeddings);
  file.read("n_inner", config.intermediate_size);
  file.read("layer_norm_epsilon", config.norm_eps);
  if (config.intermediate_size == 0) config.intermediate_size = 4 * config.hidden_size;
  // reorder_and_upcast_attn: the scores in f32, which they are anyway.
  bool by_layer = false, scaled = true;
  file.read("scale_attn_by_inverse_layer_idx", by_layer);
  file.read("scale_attn_weights", scaled);
  INGOT_CHECK(!by_layer, NotImplemented(file.path() + ": scale_attn_by_inverse_layer_idx (false is)"));
  INGOT_CHECK(scaled, NotImplemented(file.path() + ": scale_attn_weights false (true is)"));
  std::string activation = "gelu_new";
  file.read("activation_function", activation);
  INGOT_CHECK(
      activation == "gelu_new" || activation == "gelu_pytorch_tanh",
      NotImplemented(fmt::format("{}: activation_function '{}' (gelu_new is)", file.path(), activation)));
}

void write_gpt2(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json.update(nlohmann::ordered_json{{"n_embd", c.hidden_size},
                                     {"n_layer", c.num_hidden_layers},
                                     {"n_head", c.num_attention_heads},
                                     {"n_positions", c.max_position_embeddings},
                                     {"n_inner", c.intermediate_size},
                                     {"layer_norm_epsilon", c.norm_eps},
                                     {"activation_function", "gelu_new"}});
}

// GPT-2's Conv1D layers store [in, out], and query, key and value as one matrix.
void map_gpt2(const LanguageConfig& c, WeightMap& map) {
  map.rules = {{.ours = "model.embed_tokens.weight", .theirs = "transformer.wte.weight"},
               {.ours = "model.embed_positions.weight", .theirs = "transformer.wpe.weight"},
               {.ours = "model.norm.weight", .theirs = "transformer.ln_f.weight"},
               {.ours = "model.norm.bias", .theirs = "transformer.ln_f.bias"}};
  const auto layer = [&map](std::string_view ours, std::string_view theirs, bool matrix,
                            std::int64_t first = 0, std::int64_t rows = 0) {
    for (const char* kind : {"weight", "bias"}) {
      map.rules.push_back({.ours = fmt::format("model.layers.*.{}.{}", ours, kind),
                           .theirs = fmt::format("transformer.h.*.{}.{}", theirs, kind),
                           .transposed = matrix && kind[0] == 'w',
                           .first = first,
                           .rows = rows});
    }
  };
  const std::int64_t width = c.hidden_size;
  layer("input_layernorm", "ln_1", false);
  layer("self_attn.q_proj", "attn.c_attn", true, 0, width);
  layer("self_attn.k_proj", "attn.c_attn", true, width, width);
  layer("self_attn.v_proj", "attn.c_attn", true, 2 * width, width);
  layer("self_attn.o_proj", "attn.c_proj", true);
  layer("post_attention_layernorm", "ln_2", false);
  layer("mlp.up_proj", "mlp.c_fc", true);
  layer("mlp.down_proj", "mlp.c_proj", true);
  map.prefix = "transformer.";
  map.ignored.insert(map.ignored.end(), {"*.attn.bias", "*.attn.masked_bias"});
}

// One key and one value for all heads, or one for each.
void read_bigcode(const ConfigFile& file, LanguageConfig& c) {
  read_gpt2(file, c);
  bool multi_query = true;
  file.read("multi_query", multi_query);
  c.num_key_value_heads = multi_query ? 1 : c.num_attention_heads;
  file.read("num_key_value_heads", c.num_key_value_heads);
}

void write_bigcode(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_gpt2(c, json);
  json["activation_function"] = "gelu_pytorch_tanh";
  json["multi_query"] = c.num_key_value_heads == 1;
  json["num_key_value_heads"] = c.num_key_value_heads;
}

void map_bigcode(const LanguageConfig& c, WeightMap& map) {
  map.prefix = "transformer.";
  map.rules.push_back({.ours = "model.embed_tokens.weight", .theirs = "transformer.wte.weight"});
  map.rules.push_back({.ours = "model.embed_positions.weight", .theirs = "transformer.wpe.weight"});
  map_tensor(map, "model.norm", "transformer.ln_f");
  const std::string ours = "model.layers.*.", theirs = "transformer.h.*.";
  map_grouped_heads(map, theirs + "attn.c_attn", c);
  for (const auto& [mine, its] : {std::pair{"input_layernorm", "ln_1"},
                                  {"self_attn.o_proj", "attn.c_proj"},
                                  {"post_attention_layernorm", "ln_2"},
                                  {"mlp.up_proj", "mlp.c_fc"},
                                  {"mlp.down_proj", "mlp.c_proj"}})
    map_tensor(map, ours + mine, theirs + its);
  map.ignored.insert(map.ignored.end(), {"*.attn.bias", "*.attn.masked_bias"});
}

constexpr std::array<GgufNameRule, 10> kGpt2Names{
    {{"token_embd", "transformer.wte"},
     {"position_embd", "transformer.wpe"},
     {"output_norm", "transformer.ln_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "transformer.h.*.ln_1"},
     {"blk.*.attn_qkv", "transformer.h.*.attn.c_attn", transposed},
     {"blk.*.attn_output", "transformer.h.*.attn.c_proj", transposed},
     {"blk.*.ffn_norm", "transformer.h.*.ln_2"},
     {"blk.*.ffn_up", "transformer.h.*.mlp.c_fc", transposed},
     {"blk.*.ffn_down", "transformer.h.*.mlp.c_proj", transposed}}};

constexpr std::array<GgufKeyRule, 6> kGpt2Keys{
    {{"context_length", "n_positions"},
     {"embedding_length", "n_embd"},
     {"block_count", "n_layer"},
     {"feed_forward_length", "n_inner"},
     {"attention.head_count", "n_head"},
     {"attention.layer_norm_epsilon", "layer_norm_epsilon", number}}};
constexpr auto kBigCodeKeys =
    kGpt2Keys + std::array<GgufKeyRule, 1>{{{"attention.head_count_kv", "num_key_value_heads"}}};

constexpr std::array<GgufNameRule, 10> kBigCodeNames{
    {{"token_embd", "transformer.wte"},
     {"position_embd", "transformer.wpe"},
     {"output_norm", "transformer.ln_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "transformer.h.*.ln_1"},
     {"blk.*.attn_qkv", "transformer.h.*.attn.c_attn", grouped_heads},
     {"blk.*.attn_output", "transformer.h.*.attn.c_proj"},
     {"blk.*.ffn_norm", "transformer.h.*.ln_2"},
     {"blk.*.ffn_up", "transformer.h.*.mlp.c_fc"},
     {"blk.*.ffn_down", "transformer.h.*.mlp.c_proj"}}};

}  // namespace

std::vector<LanguageFamily> gpt2() {
  return {
      {.model_type = "gpt2",
       .architecture = "GPT2LMHeadModel",
       .summary = "GPT-2",
       .variants = {"fused query, key and value, transposed", "with or without the prefix transformer."},
       .repositories = {"openai-community/gpt2", "openai-community/gpt2-xl", "distilbert/distilgpt2"},
       .traits = {.norm = NormKind::layer,
                  .position = PositionKind::learned,
                  .mlp = MlpKind::gelu,
                  .qkv_bias = true,
                  .attention_output_bias = true,
                  .mlp_bias = true},
       .tied = true,
       .own_keys = true,
       .read = read_gpt2,
       .write = write_gpt2,
       .map_weights = map_gpt2,
       .inputs_first = true,
       .fused_projections = true,
       .gguf = {.architecture = "gpt2", .names = kGpt2Names, .keys = kGpt2Keys}},
      {.model_type = "gpt_bigcode",
       .architecture = "GPTBigCodeForCausalLM",
       .summary = "StarCoder and SantaCoder: GPT-2 with one key and value for all heads",
       .variants = {"one key for all heads, or one each"},
       .repositories = {"bigcode/starcoderbase-1b", "bigcode/starcoder", "bigcode/gpt_bigcode-santacoder"},
       .traits = {.norm = NormKind::layer,
                  .position = PositionKind::learned,
                  .mlp = MlpKind::gelu,
                  .qkv_bias = true,
                  .attention_output_bias = true,
                  .mlp_bias = true},
       .tied = true,
       .own_keys = true,
       .read = read_bigcode,
       .write = write_bigcode,
       .map_weights = map_bigcode,
       .fused_projections = true,
       .gguf = {.architecture = "starcoder", .names = kBigCodeNames, .keys = kBigCodeKeys}}};
}

}  // namespace ingot::families
