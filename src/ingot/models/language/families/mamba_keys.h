#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ingot/models/config_file.h"
#include "ingot/models/language/config.h"
#include "ingot/models/weight_map.h"

namespace ingot::families {

/// What a family's config.json calls the sizes of Mamba 2.
struct MambaKeys {
  const char *heads, *head_size, *groups, *state, *taps, *conv_bias, *proj_bias, *time_steps;
};

inline constexpr MambaKeys kMambaKeys{"mamba_n_heads",   "mamba_d_head",   "mamba_n_groups",
                                      "mamba_d_state",   "mamba_d_conv",   "mamba_conv_bias",
                                      "mamba_proj_bias", "time_step_limit"};

/// All of them but the size of a head, which some files do not give as a number. out_proj has a bias where
/// in_proj has one.
void read_mamba_keys(const ConfigFile& file, LanguageConfig& c, const MambaKeys& keys);
/// All of them.
void write_mamba_keys(const LanguageConfig& c, nlohmann::ordered_json& json, const MambaKeys& keys);
/// Scans of every layer as backbone.layers.*.mixer, beside backbone's other names.
void map_backbone(WeightMap& map);

}  // namespace ingot::families
