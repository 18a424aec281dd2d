#include "ingot/models/encoder/families.h"

#include <string>

#include <fmt/format.h>

namespace ingot::encoders {

void read_sizes(const ConfigFile& file, EncoderConfig& config) {
  file.read("hidden_size", config.hidden_size);
  file.read("intermediate_size", config.intermediate_size);
  file.read("num_hidden_layers", config.num_hidden_layers);
  file.read("num_attention_heads", config.num_attention_heads);
  file.read("type_vocab_size", config.type_vocab_size);
  file.read("layer_norm_eps", config.layer_norm_eps);
  read_activation(file, "hidden_act", config);
}

void read_activation(const ConfigFile& file, const char* key, EncoderConfig& config) {
  std::string activation = "gelu";
  file.read(key, activation);
  config.hidden_act = config.head_act = parse_activation(activation, key);
}

std::string_view act_name(Activation activation) {
  return activation == Activation::gelu_tanh ? "gelu_new" : name(activation);
}

void rename(WeightMap& map, std::string_view ours, std::string_view theirs) {
  for (const char* kind : {"weight", "bias"}) {
    map.rules.push_back(
        {.ours = fmt::format("{}.{}", ours, kind), .theirs = fmt::format("{}.{}", theirs, kind)});
  }
}

void rename_layers(WeightMap& map, std::string_view prefix,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
  for (const auto& [ours, theirs] : names)
    rename(map, fmt::format("encoder.layer.*.{}", ours), fmt::format("{}{}", prefix, theirs));
}

void rename_fused(WeightMap& map, std::string_view theirs, std::int64_t rows,
                  std::initializer_list<std::string_view> ours) {
  std::int64_t first = 0;
  for (const std::string_view part : ours) {
    for (const char* kind : {"weight", "bias"})
      map.rules.push_back({.ours = fmt::format("encoder.layer.*.{}.{}", part, kind),
                           .theirs = fmt::format("{}.{}", theirs, kind),
                           .first = first,
                           .rows = rows});
    first += rows;
  }
}

}  // namespace ingot::encoders
