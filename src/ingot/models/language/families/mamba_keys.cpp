#include "ingot/models/language/families/mamba_keys.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"

namespace ingot::families {

void read_mamba_keys(const ConfigFile& file, LanguageConfig& c, const MambaKeys& keys) {
  file.read(keys.heads, c.mamba_n_heads);
  file.read(keys.groups, c.mamba_n_groups);
  file.read(keys.state, c.mamba_d_state);
  file.read(keys.taps, c.conv_L_cache);
  file.read(keys.conv_bias, c.conv_bias);
  file.read(keys.proj_bias, c.mamba_proj_bias);
  c.mamba_out_bias = c.mamba_proj_bias;
  file.read_limits(keys.time_steps, c.least_time_step, c.most_time_step);
}

void write_mamba_keys(const LanguageConfig& c, nlohmann::ordered_json& json, const MambaKeys& keys) {
  const nlohmann::ordered_json infinity{{"__float__", "Infinity"}};
  json[keys.heads] = c.mamba_n_heads;
  json[keys.head_size] = c.mamba_d_head;
  json[keys.groups] = c.mamba_n_groups;
  json[keys.state] = c.mamba_d_state;
  json[keys.taps] = c.conv_L_cache;
  json[keys.conv_bias] = c.conv_bias;
  json[keys.proj_bias] = c.mamba_proj_bias;
  json[keys.time_steps] = nlohmann::ordered_json::array(
      {c.least_time_step,
       std::isinf(c.most_time_step) ? infinity : nlohmann::ordered_json(c.most_time_step)});
}

void map_backbone(WeightMap& map) {
  map.prefix = "backbone.";
  map_tensor(map, "model.embed_tokens", "backbone.embeddings");
  map_tensor(map, "model.norm", "backbone.norm_f");
  const std::string ours = "model.layers.*.", theirs = "backbone.layers.*.";
  map_tensor(map, ours + "input_layernorm", theirs + "norm");
  for (const char* part : {"in_proj", "conv1d", "norm", "out_proj"})
    map_tensor(map, ours + "mamba." + part, theirs + "mixer." + part);
  for (const char* vector : {"A_log", "D", "dt_bias"})
    map.rules.push_back({.ours = ours + "mamba." + vector, .theirs = theirs + "mixer." + vector});
}

}  // namespace ingot::families
