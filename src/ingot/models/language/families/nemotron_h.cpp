#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/mamba_gguf.h"
#include "ingot/models/language/families/mamba_keys.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

constexpr MambaKeys kNemotronHConfig{"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size",
                                     "conv_kernel",     "use_conv_bias",  "use_bias", "time_step_limit"};

std::string type_of_letter(char letter) {
  switch (letter) {
    case 'M':
      return "linear_attention";
    case '*':
      return "full_attention";
    case '-':
      return "mlp";
    case 'E':
      return "moe";
    default:
      return {letter};
  }
}

// By the names of transformers 5, or before it; or hybrid_override_pattern, a letter a layer.
std::vector<std::string> block_types(const ConfigFile& file) {
  std::vector<std::string> types;
  file.read(file.has("layers_block_type") ? "layers_block_type" : "layer_types", types);
  if (!types.empty()) return types;
  std::string pattern;
  file.read("hybrid_override_pattern", pattern);
  for (const char letter : pattern) types.push_back(type_of_letter(letter));
  return types;
}

LayerKind block_kind(const ConfigFile& file, const std::string& type) {
  if (type == "linear_attention" || type == "mamba") return LayerKind::mamba;
  if (type == "full_attention" || type == "attention") return LayerKind::full;
  if (type == "moe") return LayerKind::moe;
  INGOT_CHECK(type == "mlp", NotImplemented(fmt::format("{}: layer type '{}' in a nemotron_h model "
                                                        "(linear_attention, full_attention, mlp and moe are)",
                                                        file.path(), type)));
  return LayerKind::mlp;
}

// transformers has one shared expert, of a width of its own, whatever n_shared_experts says.
void read_nemotron_experts(const ConfigFile& file, LanguageConfig& c) {
  c.num_experts = 0;
  if (!c.has_kind(LayerKind::moe)) return;
  file.read("moe_latent_size", c.moe_latent_size);
  file.read("n_routed_experts", c.num_experts);
  require_size(c.num_experts, "n_routed_experts");
  file.read("n_group", c.n_group);
  file.read("topk_group", c.topk_group);
  file.read("routed_scaling_factor", c.routed_scaling_factor);
  file.read("moe_shared_expert_intermediate_size", c.shared_expert_intermediate_size);
  require_size(c.shared_expert_intermediate_size, "moe_shared_expert_intermediate_size");
}

// Nothing is so wide, but a configuration has a width.
std::int64_t width_without_mlps(const LanguageConfig& c) {
  return c.num_experts > 0 ? c.moe_intermediate_size : c.hidden_size;
}

void read_nemotron_h(const ConfigFile& file, LanguageConfig& c) {
  const std::vector<std::string> types = block_types(file);
  require(!types.empty(), "layers_block_type", "is missing: it names what each layer is");
  c.layer_types.clear();
  for (const std::string& type : types) c.layer_types.push_back(block_kind(file, type));
  c.num_hidden_layers = static_cast<std::int64_t>(types.size());
  c.no_rope_layers.assign(types.size(), 0);
  read_nemotron_experts(file, c);
  if (!c.has_kind(LayerKind::mlp)) c.intermediate_size = width_without_mlps(c);
  c.sliding_window = 0;
  std::string activation = "silu";
  file.read("mamba_hidden_act", activation);
  INGOT_CHECK(activation == "silu",
              NotImplemented(fmt::format("{}: mamba_hidden_act '{}' (silu is)", file.path(), activation)));
  read_mamba_keys(file, c, kNemotronHConfig);
  file.read(kNemotronHConfig.head_size, c.mamba_d_head);
  // As later files call them.
  file.read("mamba_n_groups", c.mamba_n_groups);
  file.read("mamba_d_conv", c.conv_L_cache);
  file.read("mamba_conv_bias", c.conv_bias);
  file.read_limits("mamba_dt_limit", c.least_time_step, c.most_time_step);
}

void write_nemotron_h(const LanguageConfig& c, Json& json) {
  for (const char* key :
       {"sliding_window", "layer_types", "num_hidden_layers", "rope_theta", "rope_parameters", "num_experts",
        "decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef"})
    json.erase(key);
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    types.emplace_back(c.scans(layer)       ? "linear_attention"
                       : c.attends(layer)   ? "full_attention"
                       : c.is_sparse(layer) ? "moe"
                                            : "mlp");
  json["layers_block_type"] = types;
  if (!c.has_kind(LayerKind::mlp)) json["intermediate_size"] = width_without_mlps(c);
  write_mamba_keys(c, json, kNemotronHConfig);
  if (c.num_experts == 0) return;
  json["n_routed_experts"] = c.num_experts;
  json["n_shared_experts"] = 1;
  json["moe_shared_expert_intermediate_size"] = c.shared_expert_intermediate_size;
  if (c.moe_latent_size > 0) json["moe_latent_size"] = c.moe_latent_size;
  json["n_group"] = c.n_group;
  json["topk_group"] = c.topk_group;
  json["routed_scaling_factor"] = c.routed_scaling_factor;
}

void map_nemotron_h(const LanguageConfig& c, WeightMap& map) {
  map_backbone(map);
  map.spellings.push_back({"model.", "backbone.", true, ""});
  const std::string ours = "model.layers.*.", theirs = "backbone.layers.*.";
  for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
    map_tensor(map, ours + "self_attn." + part, theirs + "mixer." + part);
  for (const std::string part : {"up_proj", "down_proj"}) {
    map_tensor(map, ours + "mlp." + part, theirs + "mixer." + part);
    map_tensor(map, ours + "mlp.shared_expert." + part, theirs + "mixer.shared_experts." + part);
    map.rules.push_back({.ours = ours + "mlp.experts." + part,
                         .theirs = theirs + "mixer.experts.#." + part + ".weight",
                         .stacked = c.num_experts});
  }
  for (const std::string part : {"fc1_latent_proj", "fc2_latent_proj"})
    map_tensor(map, ours + "mlp." + part, theirs + "mixer." + part);
  map_tensor(map, ours + "mlp.gate", theirs + "mixer.gate");
  map.rules.push_back({.ours = ours + "mlp.gate.e_score_correction_bias",
                       .theirs = theirs + "mixer.gate.e_score_correction_bias",
                       .stacked = 1});
  map.ignored.insert(map.ignored.end(), {"mtp.*", "backbone.mtp.*"});
}

}  // namespace

std::vector<LanguageFamily> nemotron_h() {
  return {
      {.model_type = "nemotron_h",
       .architecture = "NemotronHForCausalLM",
       .summary = "Nemotron H: layers that are Mamba 2, attention, an MLP, or experts",
       .variants = {"layers_block_type or hybrid_override_pattern", "biases of every projection",
                    "experts without gates, in groups", "experts between two projections (moe_latent_size)"},
       .repositories = {"nvidia/Nemotron-H-8B-Base-8K", "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
                        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"},
       .traits = {.mlp = MlpKind::relu2,
                  .router_score = RouterScore::sigmoid,
                  .router_bias = true,
                  .router_norm_eps = 1e-20,
                  .single_blocks = true},
       .defaults = R"({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                           "max_position_embeddings": 4096, "intermediate_size": 21504, "hidden_size": 4096,
                           "layer_norm_epsilon": 1e-5, "ssm_state_size": 128, "mamba_num_heads": 128,
                           "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "use_conv_bias": true,
                           "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 7688,
                           "moe_shared_expert_intermediate_size": 7688, "router_aux_loss_coef": 0})",
       .norm_eps_key = "layer_norm_epsilon",
       .attention_bias_key = {},  // transformers has none, whatever the key says
       .mlp_bias_key = "mlp_bias",
       .activation_key = "mlp_hidden_act",
       .read = read_nemotron_h,
       .write = write_nemotron_h,
       .map_weights = map_nemotron_h,
       .gguf = {.architecture = "nemotron_h",
                .expert_architecture = "nemotron_h_moe",
                .names = kNemotronHNames,
                .keys = kNemotronHKeys,
                .expert_names = kNemotronHExpertNames}}};
}

}  // namespace ingot::families
