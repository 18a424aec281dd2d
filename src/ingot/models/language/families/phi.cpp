#include <array>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr auto kPhiNames =
    kOuter + kMlpNorm +
    std::array<GgufNameRule, 4>{{{"blk.*.attn_qkv", "model.layers.*.self_attn.qkv_proj"},
                                 {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"},
                                 {"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"},
                                 {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};

void read_phi(const ConfigFile& file, LanguageConfig& c) {
  RopeScaling& rope = c.rope_scaling;
  file.read("original_max_position_embeddings", rope.original_max_position_embeddings);
  if (rope.type == "su" || rope.type == "yarn") rope.type = "longrope";  // its names in Phi-3's first files
}

void write_phi(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["original_max_position_embeddings"] = c.rope_scaling.original_max_position_embeddings;
  json["partial_rotary_factor"] = c.partial_rotary_factor;
}

// Phi-3 fuses query, key and value, and gate and up.
void map_phi(const LanguageConfig& c, WeightMap& map) {
  const std::int64_t query = c.num_attention_heads * c.head_dim, key = c.num_key_value_heads * c.head_dim;
  map_rows(map, "self_attn.q_proj", "self_attn.qkv_proj", 0, query);
  map_rows(map, "self_attn.k_proj", "self_attn.qkv_proj", query, key);
  map_rows(map, "self_attn.v_proj", "self_attn.qkv_proj", query + key, key);
  map_rows(map, "mlp.gate_proj", "mlp.gate_up_proj", 0, c.intermediate_size);
  map_rows(map, "mlp.up_proj", "mlp.gate_up_proj", c.intermediate_size, c.intermediate_size);
}

}  // namespace

std::vector<LanguageFamily> phi() {
  return {{.model_type = "phi3",
           .architecture = "Phi3ForCausalLM",
           .summary = "Phi 3 and 3.5, Phi 4",
           .variants = {"fused query, key and value", "LongRoPE", "partial rotary heads"},
           .repositories = {"microsoft/Phi-3-mini-4k-instruct", "microsoft/Phi-3.5-mini-instruct",
                            "microsoft/phi-4", "microsoft/Phi-4-mini-instruct"},
           .defaults = R"({"max_position_embeddings": 4096, "original_max_position_embeddings": 4096})",
           .read = read_phi,
           .write = write_phi,
           .map_weights = map_phi,
           .fused_projections = true,
           .gguf = {.architecture = "phi3", .names = kPhiNames, .keys = kLlamaKeys}}};
}

}  // namespace ingot::families
