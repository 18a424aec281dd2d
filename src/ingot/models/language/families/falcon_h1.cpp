#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/mamba_gguf.h"
#include "ingot/models/language/families/mamba_keys.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

void read_falcon_mamba(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t inner = 1024;
  if (file.is_null("mamba_d_ssm")) {
    std::int64_t expand = 2;
    file.read("mamba_expand", expand);
    require_size(expand, "mamba_expand");
    require_size(c.hidden_size, "hidden_size");
    inner = expand * c.hidden_size;
  }
  file.read("mamba_d_ssm", inner);
  read_mamba_keys(file, c, kMambaKeys);
  c.mamba_out_bias = false;
  file.read("projectors_bias", c.mamba_out_bias);
  file.read("mamba_rms_norm", c.mamba_rms_norm);
  file.read("mamba_norm_before_gate", c.mamba_norm_before_gate);
  require_size(inner, "mamba_d_ssm");
  require_size(c.mamba_n_heads, "mamba_n_heads");
  require(inner % c.mamba_n_heads == 0, "mamba_n_heads",
          fmt::format("{} does not divide mamba_d_ssm {}", c.mamba_n_heads, inner));
  c.mamba_d_head = inner / c.mamba_n_heads;
}

void read_falcon_h1(const ConfigFile& file, LanguageConfig& c) {
  c.layer_types.clear();
  read_falcon_mamba(file, c);
  file.read("embedding_multiplier", c.embedding_multiplier);
  file.read("lm_head_multiplier", c.logit_scale);
  file.read("key_multiplier", c.key_multiplier);
  file.read("attention_in_multiplier", c.attention_in_multiplier);
  file.read("attention_out_multiplier", c.attention_out_multiplier);
  file.read("ssm_in_multiplier", c.ssm_in_multiplier);
  file.read("ssm_out_multiplier", c.ssm_out_multiplier);
  file.read("ssm_multipliers", c.ssm_multipliers);
  std::vector<double> mlp{1, 1};
  file.read("mlp_multipliers", mlp);
  require(mlp.size() == 2, "mlp_multipliers",
          fmt::format("are {} numbers; expected 2: of gate_proj and down_proj", mlp.size()));
  c.mlp_gate_multiplier = mlp[0];
  c.mlp_down_multiplier = mlp[1];
}

void write_falcon_h1(const LanguageConfig& c, Json& json) {
  for (const char* key : {"sliding_window", "layer_types"}) json.erase(key);
  json["mamba_d_ssm"] = c.mamba_inner();
  write_mamba_keys(c, json, kMambaKeys);
  json["projectors_bias"] = c.mamba_out_bias;
  json["mamba_rms_norm"] = c.mamba_rms_norm;
  json["mamba_norm_before_gate"] = c.mamba_norm_before_gate;
  json["embedding_multiplier"] = c.embedding_multiplier;
  json["lm_head_multiplier"] = c.logit_scale;
  json["key_multiplier"] = c.key_multiplier;
  json["attention_in_multiplier"] = c.attention_in_multiplier;
  json["attention_out_multiplier"] = c.attention_out_multiplier;
  json["ssm_in_multiplier"] = c.ssm_in_multiplier;
  json["ssm_out_multiplier"] = c.ssm_out_multiplier;
  json["mlp_multipliers"] = {c.mlp_gate_multiplier, c.mlp_down_multiplier};
  if (!c.ssm_multipliers.empty()) json["ssm_multipliers"] = c.ssm_multipliers;
}

}  // namespace

std::vector<LanguageFamily> falcon_h1() {
  return {
      {.model_type = "falcon_h1",
       .architecture = "FalconH1ForCausalLM",
       .summary = "Falcon H1: attention and Mamba 2 side by side in every layer",
       .variants = {"multipliers of embeddings, attention, scans, MLP and logits",
                    "norms of scans, before or behind their gates, or none", "biases of every projection"},
       .repositories = {"tiiuae/Falcon-H1-0.5B-Instruct", "tiiuae/Falcon-H1-1.5B-Deep-Instruct"},
       .traits = {.hybrid_layers = true},
       .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 8192, "mamba_n_heads": 128,
                           "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_conv_bias": true,
                           "mamba_rms_norm": false, "mamba_norm_before_gate": true})",
       .mlp_bias_key = "mlp_bias",
       .read = read_falcon_h1,
       .write = write_falcon_h1,
       .map_weights = map_bamba,
       .gguf = {.architecture = "falcon-h1", .names = kFalconH1Names, .keys = kBambaKeys}}};
}

}  // namespace ingot::families
