#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/mamba_gguf.h"
#include "ingot/models/language/families/mamba_keys.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

// Kinds of layers by their names in transformers 5, or before it.
std::vector<LayerKind> layer_kinds(const ConfigFile& file, const std::vector<std::string>& types) {
  std::vector<LayerKind> kinds;
  for (const std::string& type : types) {
    const bool mamba = type == "linear_attention" || type == "mamba";
    INGOT_CHECK(mamba || type == "full_attention" || type == "attention",
                NotImplemented(fmt::format("{}: layer type '{}' (linear_attention and full_attention are)",
                                           file.path(), type)));
    kinds.push_back(mamba ? LayerKind::mamba : LayerKind::full);
  }
  return kinds;
}

void read_mamba(const ConfigFile& file, LanguageConfig& c) {
  if (!c.has_mamba()) return c.layer_types.clear();
  std::int64_t expand = 2;
  file.read("mamba_expand", expand);
  read_mamba_keys(file, c, kMambaKeys);
  require_size(c.hidden_size, "hidden_size");
  require_size(c.mamba_n_heads, "mamba_n_heads");
  require_size(expand, "mamba_expand");
  require(expand * c.hidden_size % c.mamba_n_heads == 0, "mamba_n_heads",
          fmt::format("{} does not divide mamba_expand {} times hidden_size {}", c.mamba_n_heads, expand,
                      c.hidden_size));
  c.mamba_d_head = expand * c.hidden_size / c.mamba_n_heads;  // files may say "auto", and nothing else
}

void write_mamba(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json.erase("sliding_window");
  if (!c.has_mamba()) return;
  json["mamba_expand"] = c.mamba_inner() / c.hidden_size;
  write_mamba_keys(c, json, kMambaKeys);
}

// transformers takes a Granite without layer_types for one of Mamba layers alone.
void read_granite_hybrid(const ConfigFile& file, LanguageConfig& c) {
  read_granite_moe(file, c);
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  std::vector<std::string> types;
  file.read(file.has("layers_block_type") ? "layers_block_type" : "layer_types", types);
  c.layer_types = layer_kinds(file, types);
  if (types.empty()) c.layer_types.assign(static_cast<std::size_t>(c.num_hidden_layers), LayerKind::mamba);
  std::string position;
  file.read("position_embedding_type", position);
  INGOT_CHECK(position.empty() || position == "nope" || position == "rope",
              NotImplemented(fmt::format("{}: position_embedding_type '{}' (rope, nope and null are)",
                                         file.path(), position)));
  if (position != "rope") c.no_rope_layers.assign(static_cast<std::size_t>(c.num_hidden_layers), 0);
  if (c.num_experts == 0) {  // what is beside the experts elsewhere is the MLP
    c.intermediate_size = c.shared_expert_intermediate_size;
    c.shared_expert_intermediate_size = 0;
  }
  read_mamba(file, c);
}

void write_granite_hybrid(const LanguageConfig& c, nlohmann::ordered_json& json) {
  write_granite_moe(c, json);
  if (c.num_experts == 0) {
    json["num_local_experts"] = 0;
    json["num_experts_per_tok"] = 0;
    json["shared_intermediate_size"] = c.intermediate_size;
  }
  if (c.num_experts > 0) json["shared_intermediate_size"] = c.shared_expert_intermediate_size;
  if (!json.contains("layer_types"))
    json["layer_types"] =
        std::vector<std::string>(static_cast<std::size_t>(c.num_hidden_layers), "full_attention");
  json["position_embedding_type"] =
      c.no_rope_layers.empty() ? nlohmann::ordered_json("rope") : nlohmann::ordered_json(nullptr);
  write_mamba(c, json);
}

void map_granite_hybrid(const LanguageConfig& c, WeightMap& map) {
  if (c.num_experts > 0) return map_granite_moe(c, map);
  map_rows(map, "mlp.gate_proj", "shared_mlp.input_linear", 0, c.intermediate_size);
  map_rows(map, "mlp.up_proj", "shared_mlp.input_linear", c.intermediate_size, c.intermediate_size);
  map_name(map, "mlp.down_proj", "shared_mlp.output_linear");
}

void read_bamba(const ConfigFile& file, LanguageConfig& c) {
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  std::vector<std::int64_t> attending;
  file.read("attn_layer_indices", attending);
  c.layer_types.assign(static_cast<std::size_t>(c.num_hidden_layers), LayerKind::mamba);
  for (const std::int64_t layer : attending) {
    require(layer >= 0 && layer < c.num_hidden_layers, "attn_layer_indices",
            fmt::format("names layer {} of num_hidden_layers {}", layer, c.num_hidden_layers));
    c.layer_types[static_cast<std::size_t>(layer)] = LayerKind::full;
  }
  read_mamba(file, c);
}

void write_bamba(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json.erase("layer_types");
  std::vector<std::int64_t> attending;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    if (c.attends(layer)) attending.push_back(layer);
  json["attn_layer_indices"] = attending;
  write_mamba(c, json);
}

}  // namespace

void map_bamba(const LanguageConfig& /*config*/, WeightMap& map) {
  map_tensor(map, "model.norm", "model.final_layernorm");
  map_name(map, "post_attention_layernorm", "pre_ff_layernorm");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    map_name(map, std::string("mlp.") + linear, std::string("feed_forward.") + linear);
}

namespace {

constexpr MambaKeys kMamba2Config{"num_heads",   "head_dim",      "n_groups", "state_size",
                                  "conv_kernel", "use_conv_bias", "use_bias", "time_step_limit"};

// Of attention and MLP, which there are none of, sizes that cost nothing.
void read_mamba2(const ConfigFile& file, LanguageConfig& c) {
  c.num_attention_heads = c.num_key_value_heads = 1;
  c.head_dim = 2;
  c.max_position_embeddings = std::int64_t{1} << 20;
  std::string activation = "silu";
  file.read("hidden_act", activation);
  INGOT_CHECK(activation == "silu",
              NotImplemented(
                  fmt::format("{}: activation '{}' in a mamba2 model (silu is)", file.path(), activation)));
  std::int64_t expand = 2;
  file.read("hidden_size", c.hidden_size);
  file.read("num_hidden_layers", c.num_hidden_layers);
  file.read("layer_norm_epsilon", c.norm_eps);
  read_mamba_keys(file, c, kMamba2Config);
  file.read(kMamba2Config.head_size, c.mamba_d_head);
  file.read("expand", expand);
  c.intermediate_size = c.hidden_size;
  require_size(c.hidden_size, "hidden_size");
  require_size(c.mamba_n_heads, "num_heads");
  require_size(c.mamba_d_head, "head_dim");
  require(expand > 0 && expand <= kMaxModelSize && c.mamba_inner() == expand * c.hidden_size, "num_heads",
          fmt::format("{} times head_dim {} must be expand {} times hidden_size {}", c.mamba_n_heads,
                      c.mamba_d_head, expand, c.hidden_size));
}

void write_mamba2(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json.update({{"hidden_size", c.hidden_size},
               {"num_hidden_layers", c.num_hidden_layers},
               {"layer_norm_epsilon", c.norm_eps},
               {"expand", c.mamba_inner() / c.hidden_size}});
  write_mamba_keys(c, json, kMamba2Config);
}

void map_mamba2(const LanguageConfig& /*config*/, WeightMap& map) { map_backbone(map); }

}  // namespace

std::vector<LanguageFamily> mamba() {
  return {
      {.model_type = "mamba2",
       .architecture = "Mamba2ForCausalLM",
       .summary = "Mamba 2: selective scans alone",
       .variants = {"groups of B and C", "biases of projections and convolutions"},
       .repositories = {"mistralai/Mamba-Codestral-7B-v0.1"},
       .traits = {.mamba_layers = true},
       .defaults = R"({"num_heads": 128, "head_dim": 64, "hidden_size": 4096, "state_size": 128,
                       "num_hidden_layers": 64, "layer_norm_epsilon": 1e-5, "conv_kernel": 4, "n_groups": 8,
                       "use_conv_bias": true, "vocab_size": 32768, "initializer_range": 0.1})",
       .own_keys = true,
       .read = read_mamba2,
       .write = write_mamba2,
       .map_weights = map_mamba2,
       .gguf = {.architecture = "mamba2", .names = kMamba2Names, .keys = kMamba2Keys}},
      {.model_type = "granitemoehybrid",
       .architecture = "GraniteMoeHybridForCausalLM",
       .summary = "Granite 4: Mamba 2 and attention in turns, with or without experts",
       .variants = {"layer_types", "mixtures of experts or one MLP", "RoPE or no positions",
                    "multipliers of embeddings, scores, residuals and logits"},
       .repositories = {"ibm-granite/granite-4.0-h-tiny", "ibm-granite/granite-4.0-h-micro"},
       .experts = true,
       .moe_layers_alike = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "num_local_experts": 8, "num_experts_per_tok": 2,
                       "shared_intermediate_size": 1024, "mamba_n_heads": 128, "mamba_d_state": 256,
                       "mamba_d_conv": 4, "mamba_conv_bias": true})",
       .read = read_granite_hybrid,
       .write = write_granite_hybrid,
       .map_weights = map_granite_hybrid,
       .gguf = {.architecture = "granitehybrid",
                .names = kGraniteHybridNames,
                .keys = kGraniteHybridKeys,
                .expert_names = kGraniteHybridExpertNames}},
      {.model_type = "bamba",
       .architecture = "BambaForCausalLM",
       .summary = "Bamba: Mamba 2 and attention in turns",
       .variants = {"attn_layer_indices", "attention and MLP biases"},
       .repositories = {"ibm-ai-platform/Bamba-9B-v2"},
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 262144,
                       "partial_rotary_factor": 0.5, "mamba_n_heads": 128, "mamba_d_state": 256,
                       "mamba_d_conv": 4, "mamba_conv_bias": true})",
       .mlp_bias_key = "mlp_bias",
       .read = read_bamba,
       .write = write_bamba,
       .map_weights = map_bamba,
       .gguf = {.architecture = "granitehybrid", .names = kBambaNames, .keys = kBambaKeys}},
  };
}

}  // namespace ingot::families
