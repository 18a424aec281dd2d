#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

void read_gemma3n(const ConfigFile& file, LanguageConfig& c) {
  c.query_pre_attn_scalar = 0;
  c.attn_logit_softcapping = 0;
  file.read("num_kv_shared_layers", c.num_kv_shared_layers);
  file.read("hidden_size_per_layer_input", c.hidden_size_per_layer_input);
  file.read("vocab_size_per_layer_input", c.vocab_size_per_layer_input);
  require_size(c.hidden_size_per_layer_input, "hidden_size_per_layer_input");
  file.read("altup_num_inputs", c.altup_num_inputs);
  require_size(c.altup_num_inputs, "altup_num_inputs");  // 0 would be that of a model from scratch
  file.read("altup_active_idx", c.altup_active_idx);
  file.read("altup_correct_scale", c.altup_correct_scale);
  file.read("altup_coef_clip", c.altup_coef_clip);
  file.read("laurel_rank", c.laurel_rank);
  file.read("activation_sparsity_pattern", c.activation_sparsity_pattern);
  if (!c.activation_sparsity_pattern.empty()) return;
  constexpr std::int64_t kSparse = 10;  // of deeper models the first ones
  require_size(c.num_hidden_layers, "num_hidden_layers", kMaxModelLayers);
  c.activation_sparsity_pattern.assign(static_cast<std::size_t>(c.num_hidden_layers), 0.0);
  for (std::size_t i = 0; c.num_hidden_layers > kSparse && i < kSparse; ++i)
    c.activation_sparsity_pattern[i] = 0.95;
}

void write_gemma3n(const LanguageConfig& c, Json& json) {
  json["final_logit_softcapping"] = c.final_logit_softcapping > 0 ? Json(c.final_logit_softcapping) : Json();
  json["num_kv_shared_layers"] = c.num_kv_shared_layers;
  json["hidden_size_per_layer_input"] = c.hidden_size_per_layer_input;
  json["vocab_size_per_layer_input"] = c.vocab_size_per_layer_input;
  json["altup_num_inputs"] = c.altup_num_inputs;
  json["altup_active_idx"] = c.altup_active_idx;
  json["altup_correct_scale"] = c.altup_correct_scale;
  json["altup_coef_clip"] = c.altup_coef_clip;
  json["laurel_rank"] = c.laurel_rank;
  json["activation_sparsity_pattern"] = c.activation_sparsity_pattern;
}

constexpr auto kGemma3nNames =
    kOuter + kAttention + kMlp + kHeadNorms +
    std::array<GgufNameRule, 19>{
        {{"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"},
         {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm"},
         {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"},
         {"blk.*.inp_gate", "model.layers.*.per_layer_input_gate"},
         {"blk.*.proj", "model.layers.*.per_layer_projection"},
         {"blk.*.post_norm", "model.layers.*.post_per_layer_input_norm"},
         {"blk.*.altup_correct_coef", "model.layers.*.altup.correction_coefs"},
         {"blk.*.altup_correct_scale", "model.layers.*.altup.correct_output_scale", bare},
         {"blk.*.altup_predict_coef", "model.layers.*.altup.prediction_coefs"},
         {"blk.*.altup_router", "model.layers.*.altup.modality_router"},
         {"blk.*.altup_router_norm", "model.layers.*.altup.router_norm"},
         {"blk.*.laurel_l", "model.layers.*.laurel.linear_left"},
         {"blk.*.laurel_r", "model.layers.*.laurel.linear_right"},
         {"blk.*.laurel_post_norm", "model.layers.*.laurel.post_laurel_norm"},
         {"altup_proj", "model.altup_projections.#", experts},
         {"altup_unembd_proj", "model.altup_unembed_projections.#", experts},
         {"per_layer_token_embd", "model.embed_tokens_per_layer"},
         {"per_layer_model_proj", "model.per_layer_model_projection"},
         {"per_layer_proj_norm", "model.per_layer_projection_norm"}}};
constexpr auto kGemma3nKeys =
    kLlamaKeys +
    std::array<GgufKeyRule, 5>{{{"altup.num_inputs", "altup_num_inputs"},
                                {"altup.active_idx", "altup_active_idx"},
                                {"attention.shared_kv_layers", "num_kv_shared_layers"},
                                {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
                                {"rope.freq_base_swa", "rope_local_base_freq", number}}};

}  // namespace

std::vector<LanguageFamily> gemma3n() {
  return {
      {.model_type = "gemma3n_text",
       .architecture = "Gemma3nForCausalLM",
       .more_architectures = {"Gemma3nForConditionalGeneration"},
       .summary = "Gemma 3n, its text part: streams (AltUp), augmented residuals (LAuReL), inputs of layers",
       .variants = {"text alone, or the text part of a model that also sees and hears",
                    "any layers with sparse activations", "last layers that read earlier ones' keys"},
       .repositories = {"google/gemma-3n-E2B-it", "google/gemma-3n-E4B-it"},
       .traits = {.norm_placement = NormPlacement::sandwich,
                  .mlp = MlpKind::geglu,
                  .qk_norm = QkNorm::head,
                  .embedding_scale = true,
                  .value_norm = true,
                  .several_streams = true},
       .tied = true,
       .sliding_pattern = 5,
       .attention_multiplier = 1,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 256,
                       "vocab_size": 262400, "num_attention_heads": 8, "num_key_value_heads": 2,
                       "sliding_window": 512, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                       "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 256,
                       "vocab_size_per_layer_input": 262144, "num_kv_shared_layers": 15,
                       "altup_num_inputs": 4, "laurel_rank": 64})",
       .activation_key = "hidden_activation",
       .read = read_gemma3n,
       .write = write_gemma3n,
       .map_weights = map_shared_keys,
       .gguf = {.architecture = "gemma3n", .names = kGemma3nNames, .keys = kGemma3nKeys}},
  };
}

}  // namespace ingot::families
