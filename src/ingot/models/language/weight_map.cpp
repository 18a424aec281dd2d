#include "ingot/models/language/weight_map.h"

#include <fmt/format.h>

namespace ingot {
namespace {

// Ours are Llama's names, so most families need no rule.

// GPT-2's Conv1D layers store [in, out], and query, key and value as one matrix.
void add_gpt2(const LanguageConfig& c, WeightMap& map) {
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

// Phi-3 fuses query, key and value, and gate and up.
void add_phi3(const LanguageConfig& c, WeightMap& map) {
  const auto part = [&map](const char* ours, const char* theirs, std::int64_t first, std::int64_t rows) {
    map.rules.push_back({.ours = fmt::format("model.layers.*.{}.weight", ours),
                         .theirs = fmt::format("model.layers.*.{}.weight", theirs),
                         .first = first,
                         .rows = rows});
  };
  const std::int64_t query = c.num_attention_heads * c.head_dim, key = c.num_key_value_heads * c.head_dim;
  part("self_attn.q_proj", "self_attn.qkv_proj", 0, query);
  part("self_attn.k_proj", "self_attn.qkv_proj", query, key);
  part("self_attn.v_proj", "self_attn.qkv_proj", query + key, key);
  part("mlp.gate_proj", "mlp.gate_up_proj", 0, c.intermediate_size);
  part("mlp.up_proj", "mlp.gate_up_proj", c.intermediate_size, c.intermediate_size);
}

// Checkpoints hold each expert by itself.
void add_experts(const LanguageConfig& c, WeightMap& map, const char* block, const char* gate, const char* up,
                 const char* down) {
  map.rules.push_back({.ours = "model.layers.*.mlp.gate.weight",
                       .theirs = fmt::format("model.layers.*.{}.gate.weight", block)});
  for (const auto& [ours, theirs] : {std::pair{"gate_proj", gate}, {"up_proj", up}, {"down_proj", down}}) {
    map.rules.push_back({.ours = fmt::format("model.layers.*.mlp.experts.{}", ours),
                         .theirs = fmt::format("model.layers.*.{}.experts.#.{}.weight", block, theirs),
                         .stacked = c.num_experts});
  }
}

}  // namespace

WeightMap language_weight_map(const LanguageConfig& config) {
  WeightMap map{.rules = {},
                .spellings = {},
                .prefix = "model.",
                .outside = {"lm_head.*"},
                .ignored = {"*.rotary_emb.inv_freq"}};
  // A tied head is often stored all the same; it is the embedding once more.
  if (config.tie_word_embeddings) map.ignored.emplace_back("lm_head.weight");
  if (config.model_type == "gpt2") add_gpt2(config, map);
  if (config.model_type == "phi3") add_phi3(config, map);
  if (config.model_type == "mixtral") add_experts(config, map, "block_sparse_moe", "w1", "w3", "w2");
  if (config.model_type == "qwen3_moe") add_experts(config, map, "mlp", "gate_proj", "up_proj", "down_proj");
  if (config.model_type == "gemma3_text") {
    // The text part of a Gemma 3 that also sees, as two generations of files call it.
    const std::string variant = "part of an image-and-text model";
    map.spellings = {{"language_model.model.", "model.", true, variant},
                     {"model.language_model.", "model.", true, variant},
                     {"language_model.lm_head.", "lm_head.", true, ""}};
    map.ignored.insert(map.ignored.end(), {"vision_tower.*", "multi_modal_projector.*",
                                           "model.vision_tower.*", "model.multi_modal_projector.*"});
  }
  return map;
}

}  // namespace ingot
