#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/require.h"

namespace ingot::families {

void read_deepseek_experts(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t shared = 0, dense = 0;
  file.read("n_routed_experts", c.num_experts);
  file.read("n_shared_experts", shared);
  file.read("first_k_dense_replace", dense);
  file.read("n_group", c.n_group);
  file.read("topk_group", c.topk_group);
  file.read("routed_scaling_factor", c.routed_scaling_factor);
  if (!file.has("router_aux_loss_coef")) c.router_aux_loss_coef = 0;  // transformers adds no such loss
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  require(shared >= 0 && shared <= kMaxExperts, "n_shared_experts", "must be a small number");
  if (c.num_experts > 0) require_size(c.moe_intermediate_size, "moe_intermediate_size");
  require(dense >= 0 && dense <= c.num_hidden_layers, "first_k_dense_replace",
          "must be from 0 to num_hidden_layers");
  c.shared_expert_intermediate_size = shared * c.moe_intermediate_size;
  for (std::int64_t layer = 0; c.num_experts > 0 && layer < dense; ++layer)
    c.mlp_only_layers.push_back(layer);
}

void write_deepseek_experts(const LanguageConfig& c, nlohmann::ordered_json& json) {
  for (const char* key : {"num_experts", "decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef"})
    json.erase(key);
  json["n_routed_experts"] = c.num_experts;
  const bool shares = c.shared_expert_intermediate_size > 0 && c.moe_intermediate_size > 0;
  json["n_shared_experts"] = shares ? c.shared_expert_intermediate_size / c.moe_intermediate_size : 0;
  json["first_k_dense_replace"] =
      c.num_experts > 0 ? static_cast<std::int64_t>(c.mlp_only_layers.size()) : c.num_hidden_layers;
  json["n_group"] = c.n_group;
  json["topk_group"] = c.topk_group;
  json["routed_scaling_factor"] = c.routed_scaling_factor;
}

void map_deepseek_experts(const LanguageConfig& c, WeightMap& map) {
  map_experts(c, map, "mlp", "gate_proj", "up_proj", "down_proj");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    map_name(map, std::string("mlp.shared_expert.") + linear, std::string("mlp.shared_experts.") + linear);
  map_router_bias(map, "mlp.gate.e_score_correction_bias");
}

}  // namespace ingot::families
