#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/models/config_file.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/family.h"
#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

void read_rope(const ConfigFile& file, LanguageConfig& config) {
  RopeKeys keys{.scaling = config.rope_scaling,
                .theta = config.rope_theta,
                .local_theta = config.rope_local_theta,
                .partial_rotary_factor = config.partial_rotary_factor};
  keys.read(file);
  config.rope_scaling = std::move(keys.scaling);
  config.rope_theta = keys.theta;
  config.rope_local_theta = keys.local_theta;
  config.partial_rotary_factor = keys.partial_rotary_factor;
}

// Which layers slide: layer_types, or the family's habit.
void read_layer_types(const ConfigFile& file, const LanguageFamily& family, LanguageConfig& config) {
  bool use_window = true;
  file.read("use_sliding_window", use_window);
  if (use_window) file.read("sliding_window", config.sliding_window);
  if (config.sliding_window == 0) return;
  std::vector<std::string> types;
  file.read("layer_types", types);
  std::int64_t pattern = family.sliding_pattern, first = 0;
  if (types.empty()) file.read("sliding_window_pattern", pattern);
  file.read("max_window_layers", first);
  if (types.empty() && pattern == 0 && first == 0) return;
  if (types.empty()) config.layer_types = layers_with_windows(config.num_hidden_layers, pattern, first);
  for (const std::string& type : types) {
    INGOT_CHECK(type == "sliding_attention" || type == "full_attention",
                NotImplemented(fmt::format("{}: layer type '{}' (sliding_attention and full_attention are)",
                                           file.path(), type)));
    config.layer_types.push_back(type == "full_attention" ? LayerKind::full : LayerKind::sliding);
  }
  if (family.ends_with_full) config.layer_types.back() = LayerKind::full;
}

void read_biases(const ConfigFile& file, const LanguageFamily& family, LanguageConfig& config) {
  if (!family.attention_bias_key.empty()) {
    file.read(family.attention_bias_key.data(), config.qkv_bias);
    config.attention_output_bias = config.qkv_bias;
  }
  if (!family.mlp_bias_key.empty()) file.read(family.mlp_bias_key.data(), config.mlp_bias);
}

// The names that config.json has for an activation; the first is written.
std::vector<std::string> activation_names(MlpKind mlp) {
  switch (mlp) {
    case MlpKind::swiglu:
      return {"silu"};
    case MlpKind::relu2:
      return {"relu2"};
    case MlpKind::gelu_erf:
      return {"gelu"};
    case MlpKind::relu:
      return {"relu"};
    case MlpKind::xielu:
      return {"xielu"};
    case MlpKind::gelu:
    case MlpKind::geglu:
      return {"gelu_pytorch_tanh", "gelu_new"};
  }
  return {};
}

void read_activation(const ConfigFile& file, const LanguageFamily& family, const LanguageConfig& config) {
  const std::vector<std::string> known = activation_names(config.mlp);
  std::string activation = known.front();
  file.read(family.activation_key.data(), activation);
  INGOT_CHECK(std::ranges::find(known, activation) != known.end(),
              NotImplemented(fmt::format("{}: activation '{}' in a {} model ({} is)", file.path(), activation,
                                         config.model_type, known.front())));
}

void read_experts(const ConfigFile& file, LanguageConfig& config) {
  file.read_same("num_local_experts", config.num_experts);
  file.read_same("num_experts", config.num_experts);
  file.read_same("num_experts_per_tok", config.num_experts_per_tok);
  file.read_same("moe_intermediate_size", config.moe_intermediate_size);
  file.read("norm_topk_prob", config.norm_topk_prob);
  file.read("decoder_sparse_step", config.decoder_sparse_step);
  file.read("mlp_only_layers", config.mlp_only_layers);
  file.read("router_aux_loss_coef", config.router_aux_loss_coef);
}

// Gemma 4 says whose tokens see what comes behind them: "vision", those of images, of which a text has none;
// or "all".
bool sees_both_ways(const ConfigFile& file) {
  const Json json = parse_json<Json>(file.text(), file.path(), "config");
  const auto found = json.find("use_bidirectional_attention");
  if (found != json.end() && found->is_string()) return *found != "vision";
  bool both = false;
  file.read("use_bidirectional_attention", both);
  return both;
}

void read_llama_like(const ConfigFile& file, const LanguageFamily& family, LanguageConfig& config) {
  file.read("hidden_size", config.hidden_size);
  file.read_same("intermediate_size", config.intermediate_size);
  file.read("num_hidden_layers", config.num_hidden_layers);
  file.read("num_attention_heads", config.num_attention_heads);
  file.read("num_key_value_heads", config.num_key_value_heads);
  file.read("head_dim", config.head_dim);
  file.read("max_position_embeddings", config.max_position_embeddings);
  file.read(family.norm_eps_key.data(), config.norm_eps);
  file.read("query_pre_attn_scalar", config.query_pre_attn_scalar);
  file.read("attn_logit_softcapping", config.attn_logit_softcapping);
  file.read("final_logit_softcapping", config.final_logit_softcapping);
  config.use_bidirectional_attention = sees_both_ways(file);
  INGOT_CHECK(!config.use_bidirectional_attention || family.may_be_bidirectional,
              NotImplemented(fmt::format("{}: use_bidirectional_attention in a {} model", file.path(),
                                         config.model_type)));
  read_biases(file, family, config);
  read_layer_types(file, family, config);
  if (config.use_bidirectional_attention && config.sliding_window > 0)
    config.sliding_window = config.sliding_window / 2 + 1;  // the file counts both sides
  read_rope(file, config);
  read_activation(file, family, config);
  read_experts(file, config);
}

// Whether a family assumes something where this key is not there.
bool has_default(const LanguageConfig& config, std::string_view key) {
  return language_family(config.model_type, "model_type").defaults.find(key) != std::string_view::npos;
}

void write_rope(const LanguageConfig& config, Json& json) {
  Json rope = rope_to_json(config.rope_scaling, config.rope_theta);
  if (config.partial_rotary_factor != 1 || has_default(config, "partial_rotary_factor"))
    rope["partial_rotary_factor"] = config.partial_rotary_factor;
  json["rope_theta"] = config.rope_theta;
  if (config.rope_scaling.type != "default") json["rope_scaling"] = rope;
  if (config.rope_local_theta == 0 && !has_default(config, "rope_local_base_freq")) {
    json["rope_parameters"] = rope;
    return;
  }
  const double local = config.rope_local_theta > 0 ? config.rope_local_theta : config.rope_theta;
  json["rope_local_base_freq"] = local;
  json["rope_parameters"] = {{"full_attention", rope},
                             {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

std::string layer_type_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::full:
      return "full_attention";
    case LayerKind::sliding:
      return "sliding_attention";
    case LayerKind::chunked:
      return "chunked_attention";
    case LayerKind::conv:
      return "conv";
    case LayerKind::mamba:
    case LayerKind::delta:
      return "linear_attention";
    case LayerKind::hybrid:
      return "hybrid";
    case LayerKind::mlp:
      return "mlp";
    case LayerKind::moe:
      return "moe";
  }
  return {};
}

// Of a family whose layers slide in turns, a model without a window. transformers takes its layers to slide
// unless the list says otherwise, and has no mask for them without a window: one that nothing slides in is
// the same model, but where layers that do not slide lack RoPE.
LanguageConfig with_unused_window(const LanguageConfig& config) {
  LanguageConfig same = config;
  if (!config.rope_needs_window) same.sliding_window = config.max_position_embeddings;
  same.layer_types.assign(static_cast<std::size_t>(config.num_hidden_layers), LayerKind::full);
  return same;
}

void write_window(const LanguageConfig& given, Json& json) {
  const bool in_turns = language_family(given.model_type, "model_type").sliding_pattern > 0;
  const LanguageConfig config = given.sliding_window == 0 && in_turns ? with_unused_window(given) : given;
  // A family whose default is a window needs the null to have none.
  const std::int64_t window = config.use_bidirectional_attention
                                  ? std::max<std::int64_t>(2 * (config.sliding_window - 1), 1)
                                  : config.sliding_window;
  json["sliding_window"] = config.sliding_window > 0 ? Json(window) : Json(nullptr);
  if (config.use_bidirectional_attention) json["use_bidirectional_attention"] = true;
  if (has_default(config, "use_sliding_window")) json["use_sliding_window"] = config.sliding_window > 0;
  // Where max_window_layers has a default, readers take lower layers not to slide unless the list says so.
  const bool by_default = has_default(config, "max_window_layers");
  if (config.layer_types.empty() && (config.sliding_window == 0 || !by_default)) return;
  Json types = Json::array();
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerKind kind =
        config.layer_types.empty() ? LayerKind::sliding : config.layer_types[static_cast<std::size_t>(i)];
    types.push_back(layer_type_name(kind));
  }
  json["layer_types"] = types;
}

void write_experts(const LanguageConfig& config, Json& json) {
  if (config.num_experts == 0) return;
  json["num_experts_per_tok"] = config.num_experts_per_tok;
  json["router_aux_loss_coef"] = config.router_aux_loss_coef;
  json["num_experts"] = config.num_experts;
  json["moe_intermediate_size"] = config.moe_intermediate_size;
  json["norm_topk_prob"] = config.norm_topk_prob;
  json["decoder_sparse_step"] = config.decoder_sparse_step;
  json["mlp_only_layers"] = config.mlp_only_layers;
}

void write_llama_like(const LanguageConfig& c, const LanguageFamily& family, Json& json) {
  json.update(Json{{"hidden_size", c.hidden_size},
                   {"intermediate_size", c.intermediate_size},
                   {"num_hidden_layers", c.num_hidden_layers},
                   {"num_attention_heads", c.num_attention_heads},
                   {"num_key_value_heads", c.num_key_value_heads},
                   {"head_dim", c.head_dim},
                   {"max_position_embeddings", c.max_position_embeddings},
                   {std::string(family.norm_eps_key), c.norm_eps}});
  json["hidden_act"] = activation_names(c.mlp).front();
  json[std::string(family.activation_key)] = activation_names(c.mlp).front();
  if (!family.attention_bias_key.empty()) json[std::string(family.attention_bias_key)] = c.qkv_bias;
  if (!family.mlp_bias_key.empty()) json[std::string(family.mlp_bias_key)] = c.mlp_bias;
  write_rope(c, json);
  write_window(c, json);
  write_experts(c, json);
}

// A list that the family does not read must say what its layers are anyway: to pass it over would compute
// another model.
void check_layer_types(const ConfigFile& file, const LanguageFamily& family, const LanguageConfig& config) {
  std::vector<std::string> types;
  file.read("layer_types", types);
  if (types.empty()) return;
  require(static_cast<std::int64_t>(types.size()) == config.num_hidden_layers, "layer_types",
          fmt::format("names {} layers of num_hidden_layers {}", types.size(), config.num_hidden_layers));
  if (family.ends_with_full) types.pop_back();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const char* found = !config.attends(layer)    ? ""
                        : config.chunk(layer) > 0 ? "chunked_attention"
                        : config.slides(layer)    ? "sliding_attention"
                                                  : "full_attention";
    const bool attention = types[i] == "attention" || types[i] == "full_attention" ||
                           types[i] == "sliding_attention" || types[i] == "chunked_attention";
    const bool same = config.attends(layer)
                          ? types[i] == found || (types[i] == "attention" && !config.slides(layer))
                          : !attention;
    INGOT_CHECK(same, NotImplemented(fmt::format(
                          "{}: layer_types: '{}' of layer {} in a {} model{}", file.path(), types[i], i,
                          config.model_type, *found == 0 ? "" : fmt::format(", whose layer has {}", found))));
  }
}

// A null is as good as no key.
ConfigFile without_null(const ConfigFile& file, const char* key) {
  if (!file.is_null(key)) return file;
  Json json = parse_json<Json>(file.text(), file.path(), "config");
  json.erase(key);
  return {json.dump(), file.path()};
}

}  // namespace

LanguageConfig LanguageConfig::from_json(std::string_view text, const std::string& path) {
  ConfigFile file(text, path);
  LanguageConfig config;
  config.model_type.clear();
  file.read("model_type", config.model_type);
  if (const auto text_config = file.object("text_config"); text_config.has_value()) {
    file = file.with(*text_config);  // the text part of a model that also sees
    config.model_type = text_model_type(text, path);
  }
  const LanguageFamily& family = language_family(config.model_type, path);
  apply_family(config);
  const bool older = file.has("rope_scaling") && !file.has("rope_parameters");
  file = without_null(file, "rope_parameters").over(family.defaults);
  // An older file's key stands instead of a default of today's.
  if (older) file = file.with(ConfigFile(R"({"rope_parameters": null})", path));
  config.tie_word_embeddings = family.tied;
  file.read("vocab_size", config.vocab_size);
  file.read("tie_word_embeddings", config.tie_word_embeddings);
  file.read("initializer_range", config.initializer_range);
  file.read("bos_token_id", config.bos_token_id);
  file.read("pad_token_id", config.pad_token_id);
  file.read_first("eos_token_id",
                  config.eos_token_id);  // Llama 3 lists several; generation_config.json has them
  file.read_dtype(config.dtype);
  if (!family.own_keys) read_llama_like(file, family, config);
  if (family.read != nullptr) family.read(file, config);
  config.validate();
  check_layer_types(file, family, config);
  return config;
}

std::string LanguageConfig::to_json() const {
  const LanguageFamily& family = language_family(model_type, "model_type");
  Json json{{"architectures", Json::array({std::string(family.architecture)})},
            {"model_type", model_type},
            {"vocab_size", vocab_size},
            {"tie_word_embeddings", tie_word_embeddings},
            {"initializer_range", initializer_range},
            {"torch_dtype", torch_name(dtype)}};
  for (const auto& [key, id] : {std::pair{"bos_token_id", bos_token_id},
                                {"eos_token_id", eos_token_id},
                                {"pad_token_id", pad_token_id}}) {
    json[key] = id < 0 ? Json(nullptr) : Json(id);
  }
  if (!family.own_keys) write_llama_like(*this, family, json);
  if (family.write != nullptr) family.write(*this, json);
  return dump_json(json, 2) + "\n";
}

}  // namespace ingot
