#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/json_number.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"
#include "ingot/models/rope_keys.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// Sizes of heads in layers that see everything, where per_layer_config names layers. Newer files name them
// one by one, and only what differs from the sizes for all.
void read_layer_sizes(const ConfigFile& file, LanguageConfig& c) {
  const auto refuse = [&](const std::string& layer, const std::string& what) {
    throw NotImplemented(fmt::format("{}: per_layer_config of layer {}: {}", file.path(), layer, what));
  };
  std::vector<std::optional<std::int64_t>> sizes(static_cast<std::size_t>(c.num_hidden_layers)), heads(sizes);
  const Json layers = parse_json<Json>(file.text(), file.path(), "config").at("per_layer_config");
  for (const auto& [name, keys] : layers.items()) {
    std::size_t layer = sizes.size();
    if (name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos && !name.empty())
      layer = static_cast<std::size_t>(std::stoul(name));
    if (layer >= sizes.size() || !keys.is_object()) refuse(name, "there is no such layer");
    for (const auto& [key, value] : keys.items()) {
      const auto number = whole_number(value);
      if (!number || (key != "head_dim" && key != "num_key_value_heads"))
        refuse(name, fmt::format("'{}' (head_dim and num_key_value_heads are)", key));
      require_size(*number, fmt::format("per_layer_config.{}.{}", name, key).c_str());
      (key == "head_dim" ? sizes : heads)[layer] = number;
    }
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const std::int64_t size = sizes[i].value_or(c.head_dim), count = heads[i].value_or(c.num_key_value_heads);
    if (c.slides(layer) && (size != c.head_dim || count != c.num_key_value_heads))
      refuse(std::to_string(i), "other heads in a layer that slides");
    if (c.slides(layer)) continue;
    if (c.global_head_dim != 0 && (size != c.global_head_dim || count != c.num_global_key_value_heads))
      refuse(std::to_string(i), "other heads than those of an earlier layer that sees everything");
    c.global_head_dim = size;
    c.num_global_key_value_heads = count;
  }
}

void read_gemma4_experts(const ConfigFile& file, LanguageConfig& c) {
  bool enabled = false;
  file.read("enable_moe_block", enabled);
  if (!enabled) c.num_experts = c.num_experts_per_tok = c.moe_intermediate_size = 0;
  if (enabled) file.read("top_k_experts", c.num_experts_per_tok);
  c.norm_topk_prob = true;
  c.router_aux_loss_coef = 0;
}

// Before lists of layers are walked.
void check_layers(const LanguageConfig& c) {
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  require(c.layer_types.empty() || std::ssize(c.layer_types) == c.num_hidden_layers, "layer_types",
          fmt::format("names {} layers of num_hidden_layers {}", c.layer_types.size(), c.num_hidden_layers));
}

void read_gemma4(const ConfigFile& file, LanguageConfig& c) {
  check_layers(c);
  c.query_pre_attn_scalar = 0;
  c.attn_logit_softcapping = 0;
  if (c.rope_local_theta == 0) c.rope_local_theta = 10000;
  INGOT_CHECK(c.rope_scaling.type == "default" || c.rope_scaling.type == "proportional",
              NotImplemented(fmt::format("{}: rope_type '{}' in a gemma4_text model (proportional and "
                                         "default are)",
                                         file.path(), c.rope_scaling.type)));
  if (c.rope_scaling.type == "default") c.partial_rotary_factor = 1;
  file.read("attention_k_eq_v", c.attention_k_eq_v);
  file.read("num_kv_shared_layers", c.num_kv_shared_layers);
  file.read("use_double_wide_mlp", c.use_double_wide_mlp);
  file.read("hidden_size_per_layer_input", c.hidden_size_per_layer_input);
  file.read("vocab_size_per_layer_input", c.vocab_size_per_layer_input);
  read_gemma4_experts(file, c);
  if (file.has("per_layer_config")) return read_layer_sizes(file, c);
  c.global_head_dim = 512;
  file.read("global_head_dim", c.global_head_dim);
  if (c.attention_k_eq_v) file.read("num_global_key_value_heads", c.num_global_key_value_heads);
}

void write_gemma4(const LanguageConfig& c, Json& json) {
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob",
                          "decoder_sparse_step", "mlp_only_layers", "router_aux_loss_coef", "rope_theta",
                          "rope_scaling", "rope_local_base_freq", "hidden_act"})
    json.erase(key);
  json["final_logit_softcapping"] = c.final_logit_softcapping > 0 ? Json(c.final_logit_softcapping) : Json();
  Json rope = rope_to_json(c.rope_scaling, c.rope_theta);
  if (c.rope_scaling.type == "proportional") rope["partial_rotary_factor"] = c.partial_rotary_factor;
  const double local = c.rope_local_theta > 0 ? c.rope_local_theta : c.rope_theta;
  json["rope_parameters"] = {{"full_attention", rope},
                             {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  json["attention_k_eq_v"] = c.attention_k_eq_v;
  json["num_kv_shared_layers"] = c.num_kv_shared_layers;
  json["use_double_wide_mlp"] = c.use_double_wide_mlp;
  json["hidden_size_per_layer_input"] = c.hidden_size_per_layer_input;
  json["vocab_size_per_layer_input"] = c.vocab_size_per_layer_input;
  json["enable_moe_block"] = c.num_experts > 0;
  if (c.num_experts > 0) {
    json["num_experts"] = c.num_experts;
    json["top_k_experts"] = c.num_experts_per_tok;
    json["moe_intermediate_size"] = c.moe_intermediate_size;
  }
  const std::int64_t size = c.global_head_dim > 0 ? c.global_head_dim : c.head_dim;
  const std::int64_t heads =
      c.num_global_key_value_heads > 0 ? c.num_global_key_value_heads : c.num_key_value_heads;
  json["global_head_dim"] = size;
  json["num_global_key_value_heads"] = heads == c.num_key_value_heads ? Json() : Json(heads);
  if (c.attention_k_eq_v || heads == c.num_key_value_heads) return;
  // The key before is read beside attention_k_eq_v alone.
  Json layers = Json::object();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    if (!c.slides(i)) layers[std::to_string(i)] = {{"head_dim", size}, {"num_key_value_heads", heads}};
  json["per_layer_config"] = layers;
}

// The router and its experts stand beside the MLP, gate and up of all experts in one tensor
// [experts, 2 · out, in].
void map_gemma4(const LanguageConfig& c, WeightMap& map) {
  const std::string ours = "model.layers.*.mlp.", theirs = "model.layers.*.";
  map_tensor(map, ours + "gate", theirs + "router.proj");
  for (const char* scale : {"scale", "per_expert_scale"})
    map.rules.push_back({.ours = ours + "gate." + scale, .theirs = theirs + "router." + scale});
  const std::int64_t rows = c.moe_intermediate_size;
  for (const auto& [name, first] : {std::pair{"gate_proj", std::int64_t{0}}, {"up_proj", rows}})
    map.rules.push_back({.ours = ours + "experts." + name,
                         .theirs = theirs + "experts.gate_up_proj",
                         .first = first,
                         .rows = rows,
                         .groups = c.num_experts});
  map.rules.push_back({.ours = ours + "experts.down_proj", .theirs = theirs + "experts.down_proj"});
  map_shared_keys(c, map);
}

constexpr auto kGemma4Names =
    kOuter + kAttention + kMlp + kHeadNorms +
    std::array<GgufNameRule, 18>{
        {{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"},
         {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm"},
         {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"},
         {"blk.*.post_ffw_norm_1", "model.layers.*.post_feedforward_layernorm_1"},
         {"blk.*.pre_ffw_norm_2", "model.layers.*.pre_feedforward_layernorm_2"},
         {"blk.*.post_ffw_norm_2", "model.layers.*.post_feedforward_layernorm_2"},
         {"blk.*.layer_output_scale", "model.layers.*.layer_scalar", bare},
         {"blk.*.ffn_gate_inp", "model.layers.*.router.proj"},
         {"blk.*.ffn_gate_inp.scale", "model.layers.*.router.scale", whole},
         {"blk.*.ffn_down_exps.scale", "model.layers.*.router.per_expert_scale", whole},
         {"blk.*.ffn_gate_up_exps", "model.layers.*.experts.gate_up_proj", bare},
         {"blk.*.ffn_down_exps", "model.layers.*.experts.down_proj", bare},
         {"blk.*.inp_gate", "model.layers.*.per_layer_input_gate"},
         {"blk.*.proj", "model.layers.*.per_layer_projection"},
         {"blk.*.post_norm", "model.layers.*.post_per_layer_input_norm"},
         {"per_layer_token_embd", "model.embed_tokens_per_layer"},
         {"per_layer_model_proj", "model.per_layer_model_projection"},
         {"per_layer_proj_norm", "model.per_layer_projection_norm"}}};
constexpr auto kGemma4Keys =
    kLlamaKeys + std::array<GgufKeyRule, 5>{
                     {{"attention.shared_kv_layers", "num_kv_shared_layers"},
                      {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
                      {"expert_used_count", "top_k_experts"},
                      {"rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta", number},
                      {"rope.freq_base", "rope_parameters.full_attention.rope_theta", number}}};

}  // namespace

std::vector<LanguageFamily> gemma4() {
  return {
      {.model_type = "gemma4_text",
       .architecture = "Gemma4ForCausalLM",
       .more_architectures = {"Gemma4ForConditionalGeneration"},
       .summary = "Gemma 4, its text part: inputs of layers, layers that share keys, experts beside MLPs",
       .variants = {"text alone, or the text part of a model that also sees and hears",
                    "inputs of layers (E2B, E4B)", "last layers that read earlier ones' keys",
                    "experts beside the MLP (26B-A4B)", "keys as values", "larger heads in global layers"},
       .repositories = {"google/gemma-4-E2B-it", "google/gemma-4-E4B-it", "google/gemma-4-26B-A4B-it",
                        "google/gemma-4-31B-it"},
       .traits = {.norm_placement = NormPlacement::sandwich,
                  .mlp = MlpKind::geglu,
                  .qk_norm = QkNorm::head,
                  .embedding_scale = true,
                  .value_norm = true,
                  .layer_scalar = true,
                  .experts_beside_mlp = true},
       .tied = true,
       .sliding_pattern = 6,
       .ends_with_full = true,
       .attention_multiplier = 1,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "head_dim": 256,
                       "vocab_size": 262144, "num_attention_heads": 8, "num_key_value_heads": 4,
                       "sliding_window": 512, "hidden_size_per_layer_input": 256,
                       "vocab_size_per_layer_input": 262144,
                       "rope_parameters": {"full_attention": {"rope_type": "proportional",
                         "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})",
       .activation_key = "hidden_activation",
       .read = read_gemma4,
       .write = write_gemma4,
       .map_weights = map_gemma4,
       .gguf = {.architecture = "gemma4",
                .expert_architecture = "gemma4",
                .names = kGemma4Names,
                .keys = kGemma4Keys}},
  };
}

}  // namespace ingot::families
