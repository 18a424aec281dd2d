#include <utility>

#include <fmt/format.h>

#include "ingot/models/language/families/families.h"

namespace ingot::families {

void map_experts(const LanguageConfig& c, WeightMap& map, const char* block, const char* gate, const char* up,
                 const char* down) {
  map.rules.push_back({.ours = "model.layers.*.mlp.gate.weight",
                       .theirs = fmt::format("model.layers.*.{}.gate.weight", block)});
  for (const auto& [ours, theirs] : {std::pair{"gate_proj", gate}, {"up_proj", up}, {"down_proj", down}}) {
    map.rules.push_back({.ours = fmt::format("model.layers.*.mlp.experts.{}", ours),
                         .theirs = fmt::format("model.layers.*.{}.experts.#.{}.weight", block, theirs),
                         .stacked = c.num_experts});
  }
}

void map_router_bias(WeightMap& map, std::string_view theirs) {
  map.rules.push_back({.ours = "model.layers.*.mlp.gate.e_score_correction_bias",
                       .theirs = fmt::format("model.layers.*.{}", theirs),
                       .stacked = 1});
}

void map_rows(WeightMap& map, std::string_view ours, std::string_view theirs, std::int64_t first,
              std::int64_t rows) {
  map.rules.push_back({.ours = fmt::format("model.layers.*.{}.weight", ours),
                       .theirs = fmt::format("model.layers.*.{}.weight", theirs),
                       .first = first,
                       .rows = rows});
}

void map_grouped_heads(WeightMap& map, const std::string& theirs, const LanguageConfig& c) {
  const std::int64_t groups = c.num_key_value_heads, queries = c.num_attention_heads / groups * c.head_dim;
  const std::string ours = "model.layers.*.self_attn.";
  map_tensor(map, ours + "q_proj", theirs, {.first = 0, .rows = queries, .groups = groups});
  map_tensor(map, ours + "k_proj", theirs, {.first = queries, .rows = c.head_dim, .groups = groups});
  map_tensor(map, ours + "v_proj", theirs,
             {.first = queries + c.head_dim, .rows = c.head_dim, .groups = groups});
}

void map_shared_keys(const LanguageConfig& c, WeightMap& map) {
  for (std::int64_t layer = c.layers_with_keys(); layer < c.num_hidden_layers; ++layer)
    for (const char* unused : {"k_proj", "v_proj", "k_norm", "v_norm"})
      map.ignored.push_back(fmt::format("model.layers.{}.self_attn.{}.*", layer, unused));
  map.ignored.insert(map.ignored.end(), {"model.audio_tower.*", "model.embed_audio.*", "model.embed_vision.*",
                                         "audio_tower.*", "embed_audio.*", "embed_vision.*"});
}

void map_tensor(WeightMap& map, const std::string& ours, const std::string& theirs, const WeightRule& how) {
  for (const char* kind : {".weight", ".bias"}) {
    WeightRule rule = how;
    rule.ours = ours + kind;
    rule.theirs = theirs + kind;
    map.rules.push_back(std::move(rule));
  }
}

void map_name(WeightMap& map, std::string_view ours, std::string_view theirs) {
  map_tensor(map, fmt::format("model.layers.*.{}", ours), fmt::format("model.layers.*.{}", theirs));
}

}  // namespace ingot::families
