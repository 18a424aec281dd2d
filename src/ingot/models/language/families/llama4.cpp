#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/json_number.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

// Without RoPE is every n-th layer, or what no_rope_layers says; the others see chunks, or what layer_types
// says.
void read_llama4_layers(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t interval = 4;
  file.read("no_rope_layer_interval", interval);
  require(interval > 0, "no_rope_layer_interval", "must be positive");
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  file.read("no_rope_layers", c.no_rope_layers);
  if (c.no_rope_layers.empty())
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
      c.no_rope_layers.push_back((i + 1) % interval != 0 ? 1 : 0);
  require(
      static_cast<std::int64_t>(c.no_rope_layers.size()) >= c.num_hidden_layers, "no_rope_layers",
      fmt::format("names {} layers of num_hidden_layers {}", c.no_rope_layers.size(), c.num_hidden_layers));
  std::vector<std::string> types;
  file.read("layer_types", types);
  c.layer_types.clear();
  for (std::int64_t i = 0; types.empty() && i < c.num_hidden_layers; ++i) {
    const bool rotates = c.no_rope_layers[static_cast<std::size_t>(i)] != 0;
    c.layer_types.push_back(rotates && c.attention_chunk_size > 0 ? LayerKind::chunked : LayerKind::full);
  }
  for (const std::string& type : types) {
    INGOT_CHECK(type == "chunked_attention" || type == "full_attention",
                NotImplemented(fmt::format("{}: layer type '{}' (chunked_attention and full_attention are)",
                                           file.path(), type)));
    c.layer_types.push_back(type == "full_attention" ? LayerKind::full : LayerKind::chunked);
  }
}

// Which layers have experts: every n-th, or what moe_layers lists.
void read_moe_layers(const ConfigFile& file, LanguageConfig& c) {
  std::int64_t step = 1;
  file.read("interleave_moe_layer_step", step);
  require(step > 0, "interleave_moe_layer_step", "must be positive");
  std::vector<std::int64_t> sparse;
  file.read("moe_layers", sparse);
  for (std::int64_t i = step - 1; !file.has("moe_layers") && i < c.num_hidden_layers; i += step)
    sparse.push_back(i);
  c.mlp_only_layers.clear();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    if (std::ranges::find(sparse, i) == sparse.end()) c.mlp_only_layers.push_back(i);
}

// Scout's files have a number, of which any but 0 is true.
bool tunes_temperature(const ConfigFile& file) {
  const Json json = parse_json<Json>(file.text(), file.path(), "config");
  const auto found = json.find("attn_temperature_tuning");
  if (found != json.end())
    if (const auto number = whole_number(*found)) return *number != 0;
  bool tuned = true;
  file.read("attn_temperature_tuning", tuned);
  return tuned;
}

void read_llama4(const ConfigFile& file, LanguageConfig& c) {
  c.sliding_window = 0;  // no key of this family's
  file.read("attention_chunk_size", c.attention_chunk_size);
  read_llama4_layers(file, c);
  read_moe_layers(file, c);
  c.moe_intermediate_size = c.intermediate_size;
  file.read("intermediate_size_mlp", c.intermediate_size);
  c.router_aux_loss_coef = 0;  // files have one, of a loss that nothing adds
  bool normed = true;
  file.read("use_qk_norm", normed);
  c.qk_norm = normed ? QkNorm::plain_after_rope : QkNorm::none;
  if (!tunes_temperature(file)) return;
  file.read("attn_scale", c.query_position_scale);
  file.read("floor_scale", c.floor_scale);
  require(c.floor_scale > 0, "floor_scale", fmt::format("must be positive, got {}", c.floor_scale));
}

// The n of "every n-th layer has experts"; 0: there is none.
std::int64_t moe_layer_step(const LanguageConfig& c) {
  for (std::int64_t step = 1; step <= c.num_hidden_layers; ++step) {
    bool all = true;
    for (std::int64_t i = 0; all && i < c.num_hidden_layers; ++i)
      all = c.is_sparse(i) == ((i + 1) % step == 0);
    if (all) return step;
  }
  return 0;
}

void write_llama4(const LanguageConfig& c, Json& json) {
  for (const char* key : {"num_experts", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step",
                          "mlp_only_layers", "sliding_window", "layer_types", "router_aux_loss_coef"})
    json.erase(key);
  json["num_local_experts"] = c.num_experts;
  json["intermediate_size"] = c.moe_intermediate_size;
  json["intermediate_size_mlp"] = c.intermediate_size;
  std::vector<std::int64_t> sparse, rotates;
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    if (c.is_sparse(i)) sparse.push_back(i);
    rotates.push_back(c.rotates(i) ? 1 : 0);
    types.emplace_back(c.chunk(i) > 0 ? "chunked_attention" : "full_attention");
  }
  json["moe_layers"] = sparse;
  if (const std::int64_t step = moe_layer_step(c); step > 0) json["interleave_moe_layer_step"] = step;
  json["no_rope_layers"] = rotates;
  json["layer_types"] = types;
  json["attention_chunk_size"] = c.attention_chunk_size > 0 ? Json(c.attention_chunk_size) : Json(nullptr);
  json["use_qk_norm"] = c.qk_norm != QkNorm::none;
  json["attn_temperature_tuning"] = c.floor_scale > 0;
  json["attn_scale"] = c.query_position_scale;
  if (c.floor_scale > 0) json["floor_scale"] = c.floor_scale;
}

// Gate and up of all experts are one tensor [experts, in, 2 · out], one behind the other.
void map_llama4(const LanguageConfig& c, WeightMap& map) {
  const std::string ours = "model.layers.*.mlp.", theirs = "model.layers.*.feed_forward.";
  const std::int64_t rows = c.moe_intermediate_size;
  for (const auto& [name, first] : {std::pair{"gate_proj", std::int64_t{0}}, {"up_proj", rows}})
    map.rules.push_back({.ours = ours + "experts." + name,
                         .theirs = theirs + "experts.gate_up_proj",
                         .transposed = true,
                         .first = first,
                         .rows = rows,
                         .groups = c.num_experts});
  map.rules.push_back(
      {.ours = ours + "experts.down_proj", .theirs = theirs + "experts.down_proj", .transposed = true});
  map_tensor(map, ours + "gate", theirs + "router");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"}) {
    map_tensor(map, ours + "shared_expert." + linear, theirs + "shared_expert." + linear);
    map_tensor(map, ours + linear, theirs + linear);
  }
}

constexpr auto kLlama4Names =
    kOuter + kAttention + kMlpNorm +
    std::array<GgufNameRule, 10>{
        {{"blk.*.ffn_gate", "model.layers.*.feed_forward.gate_proj"},
         {"blk.*.ffn_up", "model.layers.*.feed_forward.up_proj"},
         {"blk.*.ffn_down", "model.layers.*.feed_forward.down_proj"},
         {"blk.*.ffn_gate_shexp", "model.layers.*.feed_forward.shared_expert.gate_proj"},
         {"blk.*.ffn_up_shexp", "model.layers.*.feed_forward.shared_expert.up_proj"},
         {"blk.*.ffn_down_shexp", "model.layers.*.feed_forward.shared_expert.down_proj"},
         {"blk.*.ffn_gate_inp", "model.layers.*.feed_forward.router"},
         {"blk.*.ffn_gate_exps", "model.layers.*.feed_forward.experts.gate_up_proj", first_columns},
         {"blk.*.ffn_up_exps", "model.layers.*.feed_forward.experts.gate_up_proj", second_columns},
         {"blk.*.ffn_down_exps", "model.layers.*.feed_forward.experts.down_proj", transposed_stack}}};
constexpr auto kLlama4Keys =
    kLlamaKeys + std::array<GgufKeyRule, 4>{{{"expert_count", "num_local_experts"},
                                             {"feed_forward_length", "intermediate_size_mlp"},
                                             {"expert_feed_forward_length", "intermediate_size"},
                                             {"interleave_moe_layer_step", "interleave_moe_layer_step"}}};

}  // namespace

std::vector<LanguageFamily> llama4() {
  return {
      {.model_type = "llama4_text",
       .architecture = "Llama4ForCausalLM",
       .more_architectures = {"Llama4ForConditionalGeneration"},
       .summary = "Llama 4: attention within chunks, layers without RoPE, experts whose inputs are weighed",
       .variants = {"any layers dense", "norms of heads", "queries that grow with their position",
                    "attention biases", "text alone, or the text part of a model that also sees"},
       .repositories = {"meta-llama/Llama-4-Scout-17B-16E-Instruct",
                        "meta-llama/Llama-4-Maverick-17B-128E-Instruct"},
       .traits = {.qk_norm = QkNorm::plain_after_rope,
                  .interleaved_rope = true,
                  .router_score = RouterScore::sigmoid,
                  .weighs_inputs = true},
       .experts = true,
       .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
                       "rope_theta": 500000.0, "num_local_experts": 16, "num_experts_per_tok": 1,
                       "intermediate_size_mlp": 16384, "attention_chunk_size": 8192, "floor_scale": 8192,
                       "attn_scale": 0.1})",
       .read = read_llama4,
       .write = write_llama4,
       .map_weights = map_llama4,
       .gguf = {.architecture = "llama4", .names = kLlama4Names, .keys = kLlama4Keys}},
  };
}

}  // namespace ingot::families
