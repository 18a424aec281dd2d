#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<GgufNameRule, 9> kNorms{
    {{"token_embd", "model.embed_tokens"},
     {"output", "lm_head"},
     {"output_norm", "model.norm", plus_one},
     {"blk.*.attn_norm", "model.layers.*.input_layernorm", plus_one},
     {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", plus_one},
     {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", plus_one},
     {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", plus_one},
     {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm", plus_one},
     {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", plus_one}}};
constexpr auto kNames = kNorms + kAttention + kMlp;
constexpr auto kFirstNames =
    kAttention + kMlp +
    std::array<GgufNameRule, 5>{{{"token_embd", "model.embed_tokens"},
                                 {"output", "lm_head"},
                                 {"output_norm", "model.norm", plus_one},
                                 {"blk.*.attn_norm", "model.layers.*.input_layernorm", plus_one},
                                 {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", plus_one}}};

constexpr DecoderTraits kGemma{.mlp = MlpKind::geglu, .norm_unit_offset = true, .embedding_scale = true};

DecoderTraits gemma2_traits() {
  DecoderTraits traits = kGemma;
  traits.norm_placement = NormPlacement::sandwich;
  return traits;
}

DecoderTraits gemma3_traits() {
  DecoderTraits traits = gemma2_traits();
  traits.qk_norm = QkNorm::head;
  return traits;
}

void write_gemma2(const LanguageConfig& c, Json& json) {
  json["query_pre_attn_scalar"] = c.query_pre_attn_scalar > 0 ? c.query_pre_attn_scalar : c.head_dim;
  for (const auto& [key, cap] : {std::pair{"attn_logit_softcapping", c.attn_logit_softcapping},
                                 {"final_logit_softcapping", c.final_logit_softcapping}}) {
    json[key] = cap > 0 ? Json(cap) : Json(nullptr);
  }
}

}  // namespace

std::vector<LanguageFamily> gemma() {
  // Gemma's first files say "gelu" in hidden_act and were trained with the tanh approximation all the same.
  return {
      {.model_type = "gemma",
       .architecture = "GemmaForCausalLM",
       .summary = "Gemma, first generation",
       .variants = {"multi-query or full heads"},
       .repositories = {"google/gemma-2b", "google/gemma-7b"},
       .traits = kGemma,
       .tied = true,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256,
                       "num_key_value_heads": 16})",
       .activation_key = "hidden_activation",
       .gguf = {.architecture = "gemma", .names = kFirstNames, .keys = kLlamaKeys}},
      {.model_type = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .summary = "Gemma 2: soft-capping, alternating sliding layers",
       .variants = {"soft-caps on or off"},
       .repositories = {"google/gemma-2-2b", "google/gemma-2-9b-it"},
       .traits = gemma2_traits(),
       .tied = true,
       .sliding_pattern = 2,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256,
                       "num_attention_heads": 8, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
                       "sliding_window": 4096, "attn_logit_softcapping": 50.0,
                       "final_logit_softcapping": 30.0})",
       .activation_key = "hidden_activation",
       .write = write_gemma2,
       .gguf = {.architecture = "gemma2", .names = kNames, .keys = kLlamaKeys}},
      {.model_type = "gemma3_text",
       .architecture = "Gemma3ForCausalLM",
       .more_architectures = {"Gemma3ForConditionalGeneration"},
       .summary = "Gemma 3, its text part: local and global layers",
       .variants = {"text alone, or the text part of a model that also sees", "scaled global RoPE",
                    "attention both ways, for embeddings (EmbeddingGemma)"},
       .repositories = {"google/gemma-3-270m", "google/gemma-3-1b-it", "google/gemma-3-4b-it",
                        "google/embeddinggemma-300m"},
       .traits = gemma3_traits(),
       .tied = true,
       .may_be_bidirectional = true,
       .sliding_pattern = 6,
       .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "head_dim": 256,
                       "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
                       "query_pre_attn_scalar": 256, "sliding_window": 4096, "rope_theta": 1000000.0,
                       "rope_local_base_freq": 10000.0})",
       .activation_key = "hidden_activation",
       .write = write_gemma2,
       .gguf = {.architecture = "gemma3",
                .names = kNames,
                .keys = kLlamaKeys,
                .fixed = R"({"rope_local_base_freq": 10000.0})"}},
  };
}

}  // namespace ingot::families
