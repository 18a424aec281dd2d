#include "ingot/models/language/family.h"

#include <algorithm>
#include <array>

#include "ingot/models/registry.h"

namespace ingot {
namespace {

constexpr std::array kFamilies{
    LanguageFamily{
        .model_type = "llama", .architecture = "LlamaForCausalLM", .defaults = R"({"rms_norm_eps": 1e-6})"},
    LanguageFamily{.model_type = "mistral",
                   .architecture = "MistralForCausalLM",
                   .defaults = R"({"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096,
                                   "max_position_embeddings": 131072})"},
    LanguageFamily{.model_type = "qwen2",
                   .architecture = "Qwen2ForCausalLM",
                   .qkv_bias = true,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
                                   "use_sliding_window": false, "sliding_window": 4096,
                                   "max_window_layers": 28})"},
    LanguageFamily{.model_type = "qwen3",
                   .architecture = "Qwen3ForCausalLM",
                   .qk_norm = true,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 128,
                                   "use_sliding_window": false, "sliding_window": 4096,
                                   "max_window_layers": 28})"},
    LanguageFamily{.model_type = "phi3",
                   .architecture = "Phi3ForCausalLM",
                   .defaults = R"({"max_position_embeddings": 4096,
                                   "original_max_position_embeddings": 4096})"},
    LanguageFamily{.model_type = "gemma",
                   .architecture = "GemmaForCausalLM",
                   .mlp = MlpKind::geglu,
                   .norm_unit_offset = true,
                   .embedding_scale = true,
                   .tied = true,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256,
                                   "num_key_value_heads": 16})"},
    LanguageFamily{.model_type = "gemma2",
                   .architecture = "Gemma2ForCausalLM",
                   .mlp = MlpKind::geglu,
                   .norm_unit_offset = true,
                   .post_norms = true,
                   .embedding_scale = true,
                   .tied = true,
                   .sliding_pattern = 2,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256,
                                   "num_attention_heads": 8, "num_key_value_heads": 4,
                                   "query_pre_attn_scalar": 256, "sliding_window": 4096,
                                   "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})"},
    LanguageFamily{.model_type = "gemma3_text",
                   .architecture = "Gemma3ForCausalLM",
                   .mlp = MlpKind::geglu,
                   .qk_norm = true,
                   .norm_unit_offset = true,
                   .post_norms = true,
                   .embedding_scale = true,
                   .tied = true,
                   .sliding_pattern = 6,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "head_dim": 256,
                                   "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
                                   "query_pre_attn_scalar": 256, "sliding_window": 4096,
                                   "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0})"},
    LanguageFamily{.model_type = "mixtral",
                   .architecture = "MixtralForCausalLM",
                   .experts = true,
                   .defaults = R"({"num_key_value_heads": 8, "max_position_embeddings": 131072,
                                   "rope_theta": 1000000.0, "num_local_experts": 8, "num_experts_per_tok": 2})"},
    LanguageFamily{.model_type = "qwen3_moe",
                   .architecture = "Qwen3MoeForCausalLM",
                   .qk_norm = true,
                   .experts = true,
                   .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
                                   "num_key_value_heads": 4, "use_sliding_window": false,
                                   "sliding_window": 4096, "num_local_experts": 128,
                                   "num_experts_per_tok": 8,
                                   "moe_intermediate_size": 768, "norm_topk_prob": false})"},
    LanguageFamily{.model_type = "gpt2",
                   .architecture = "GPT2LMHeadModel",
                   .norm = NormKind::layer,
                   .position = PositionKind::learned,
                   .mlp = MlpKind::gelu,
                   .qkv_bias = true,
                   .attention_output_bias = true,
                   .mlp_bias = true,
                   .tied = true},
};

}  // namespace

std::span<const LanguageFamily> language_families() { return kFamilies; }

const LanguageFamily* find_language_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &LanguageFamily::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

const LanguageFamily& language_family(const std::string& model_type, const std::string& where) {
  if (const LanguageFamily* family = find_language_family(model_type)) return *family;
  throw_unsuitable_model(model_type, ModelTask::generate, where);
}

std::vector<std::string> known_language_families() {
  std::vector<std::string> names;
  names.reserve(std::size(kFamilies));
  for (const LanguageFamily& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

void apply_family(LanguageConfig& config) {
  const LanguageFamily& family = language_family(config.model_type, "model_type");
  config.norm = family.norm;
  config.position = family.position;
  config.mlp = family.mlp;
  config.qkv_bias = family.qkv_bias;
  config.attention_output_bias = family.attention_output_bias;
  config.mlp_bias = family.mlp_bias;
  config.qk_norm = family.qk_norm;
  config.norm_unit_offset = family.norm_unit_offset;
  config.post_norms = family.post_norms;
  config.embedding_scale = family.embedding_scale;
}

}  // namespace ingot
