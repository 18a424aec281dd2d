#include "ingot/models/language/gguf_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace ingot {
namespace {

using enum GgufChange;

template <std::size_t A, std::size_t B>
constexpr std::array<GgufNameRule, A + B> operator+(const std::array<GgufNameRule, A>& a,
                                                    const std::array<GgufNameRule, B>& b) {
  std::array<GgufNameRule, A + B> all{};
  std::ranges::copy(a, all.begin());
  std::ranges::copy(b, all.begin() + A);
  return all;
}

// Names and changes as llama.cpp's convert_hf_to_gguf.py and gguf-py's tensor_mapping.py have them.
constexpr std::array<GgufNameRule, 4> kOuter{{{"token_embd", "model.embed_tokens"},
                                              {"output_norm", "model.norm"},
                                              {"output", "lm_head"},
                                              {"blk.*.attn_norm", "model.layers.*.input_layernorm"}}};
constexpr std::array<GgufNameRule, 3> kMlp{{{"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"},
                                            {"blk.*.ffn_up", "model.layers.*.mlp.up_proj"},
                                            {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
constexpr std::array<GgufNameRule, 1> kMlpNorm{
    {{"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"}}};
constexpr std::array<GgufNameRule, 4> kAttention{{{"blk.*.attn_q", "model.layers.*.self_attn.q_proj"},
                                                  {"blk.*.attn_k", "model.layers.*.self_attn.k_proj"},
                                                  {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
                                                  {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"}}};
constexpr std::array<GgufNameRule, 4> kPairedAttention{
    {{"blk.*.attn_q", "model.layers.*.self_attn.q_proj", query_rows},
     {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", key_rows},
     {"blk.*.attn_v", "model.layers.*.self_attn.v_proj"},
     {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"}}};
constexpr std::array<GgufNameRule, 2> kHeadNorms{{{"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"},
                                                  {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"}}};
constexpr std::array<GgufNameRule, 9> kGemma{
    {{"token_embd", "model.embed_tokens"},
     {"output", "lm_head"},
     {"output_norm", "model.norm", plus_one},
     {"blk.*.attn_norm", "model.layers.*.input_layernorm", plus_one},
     {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", plus_one},
     {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", plus_one},
     {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", plus_one},
     {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm", plus_one},
     {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", plus_one}}};

constexpr auto kLlamaNames = kOuter + kPairedAttention + kMlp + kMlpNorm;
constexpr auto kQwen2Names = kOuter + kAttention + kMlp + kMlpNorm;
constexpr auto kQwen3Names = kQwen2Names + kHeadNorms;
constexpr auto kGemmaNames = kGemma + kAttention + kMlp;
constexpr auto kMixtralNames =
    kOuter + kPairedAttention + kMlpNorm +
    std::array<GgufNameRule, 4>{
        {{"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.gate"},
         {"blk.*.ffn_gate_exps", "model.layers.*.block_sparse_moe.experts.#.w1", experts},
         {"blk.*.ffn_up_exps", "model.layers.*.block_sparse_moe.experts.#.w3", experts},
         {"blk.*.ffn_down_exps", "model.layers.*.block_sparse_moe.experts.#.w2", experts}}};
constexpr auto kQwen3MoeNames =
    kQwen3Names +
    std::array<GgufNameRule, 4>{{{"blk.*.ffn_gate_inp", "model.layers.*.mlp.gate"},
                                 {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.#.gate_proj", experts},
                                 {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.#.up_proj", experts},
                                 {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.#.down_proj", experts}}};
constexpr auto kPhi3Names =
    kOuter + kMlpNorm +
    std::array<GgufNameRule, 4>{{{"blk.*.attn_qkv", "model.layers.*.self_attn.qkv_proj"},
                                 {"blk.*.attn_output", "model.layers.*.self_attn.o_proj"},
                                 {"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"},
                                 {"blk.*.ffn_down", "model.layers.*.mlp.down_proj"}}};
constexpr std::array<GgufNameRule, 10> kGpt2Names{
    {{"token_embd", "transformer.wte"},
     {"position_embd", "transformer.wpe"},
     {"output_norm", "transformer.ln_f"},
     {"output", "lm_head"},
     {"blk.*.attn_norm", "transformer.h.*.ln_1"},
     {"blk.*.attn_qkv", "transformer.h.*.attn.c_attn", transposed},
     {"blk.*.attn_output", "transformer.h.*.attn.c_proj", transposed},
     {"blk.*.ffn_norm", "transformer.h.*.ln_2"},
     {"blk.*.ffn_up", "transformer.h.*.mlp.c_fc", transposed},
     {"blk.*.ffn_down", "transformer.h.*.mlp.c_proj", transposed}}};

constexpr std::array<GgufKeyRule, 15> kLlamaKeys{
    {{"context_length", "max_position_embeddings"},
     {"embedding_length", "hidden_size"},
     {"block_count", "num_hidden_layers"},
     {"feed_forward_length", "intermediate_size"},
     {"attention.head_count", "num_attention_heads"},
     {"attention.head_count_kv", "num_key_value_heads"},
     {"attention.key_length", "head_dim"},
     {"attention.layer_norm_rms_epsilon", "rms_norm_eps", false},
     {"attention.sliding_window", "sliding_window"},
     {"attn_logit_softcapping", "attn_logit_softcapping", false},
     {"final_logit_softcapping", "final_logit_softcapping", false},
     {"rope.freq_base", "rope_theta", false},
     {"expert_count", "num_experts"},
     {"expert_used_count", "num_experts_per_tok"},
     {"expert_feed_forward_length", "moe_intermediate_size"}}};
constexpr std::array<GgufKeyRule, 6> kGpt2Keys{
    {{"context_length", "n_positions"},
     {"embedding_length", "n_embd"},
     {"block_count", "n_layer"},
     {"feed_forward_length", "n_inner"},
     {"attention.head_count", "n_head"},
     {"attention.layer_norm_epsilon", "layer_norm_epsilon", false}}};

constexpr std::array<GgufFamily, 10> kGgufFamilies{{
    {"llama", "llama", kLlamaNames, kLlamaKeys},
    {"llama", "mistral", kLlamaNames, kLlamaKeys},
    {"llama", "mixtral", kMixtralNames, kLlamaKeys},
    {"qwen2", "qwen2", kQwen2Names, kLlamaKeys},
    {"qwen3", "qwen3", kQwen3Names, kLlamaKeys},
    {"qwen3moe", "qwen3_moe", kQwen3MoeNames, kLlamaKeys, R"({"norm_topk_prob": true})"},
    {"gemma2", "gemma2", kGemmaNames, kLlamaKeys},
    {"gemma3", "gemma3_text", kGemmaNames, kLlamaKeys, R"({"rope_local_base_freq": 10000.0})"},
    {"phi3", "phi3", kPhi3Names, kLlamaKeys},
    {"gpt2", "gpt2", kGpt2Names, kGpt2Keys},
}};

/// Matches `pattern`, whose `*` and `#` stand for numbers.
bool matches(std::string_view pattern, std::string_view name, std::int64_t& layer, std::int64_t& expert) {
  std::size_t at = 0;
  for (const char c : pattern) {
    if (c != '*' && c != '#') {
      if (at == name.size() || name[at++] != c) return false;
      continue;
    }
    std::int64_t& number = c == '*' ? layer : expert;
    const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (error != std::errc() || number < 0 || (name[at] == '0' && end != name.data() + at + 1)) return false;
    at = static_cast<std::size_t>(end - name.data());
  }
  return at == name.size();
}

std::string filled(std::string_view pattern, std::int64_t layer, std::int64_t expert) {
  std::string name;
  for (const char c : pattern) {
    if (c == '*' || c == '#') {
      name += std::to_string(c == '*' ? layer : expert);
    } else {
      name += c;
    }
  }
  return name;
}

template <class Side>
std::optional<GgufNameMatch> match(const GgufFamily& family, std::string_view name, Side side) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    for (const GgufNameRule& rule : family.names) {
      GgufNameMatch found{&rule, -1, -1, std::string(suffix)};
      if (matches(rule.*side, stem, found.layer, found.expert)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

const GgufFamily* find_gguf_family(std::string_view architecture, bool has_experts) {
  const auto found = std::ranges::find_if(kGgufFamilies, [&](const GgufFamily& family) {
    return family.architecture == architecture && (!has_experts || family.model_type != "llama") &&
           (!has_experts || family.model_type != "mistral");
  });
  return found == kGgufFamilies.end() ? nullptr : &*found;
}

const GgufFamily* find_gguf_family_of(std::string_view model_type) {
  const auto found = std::ranges::find(kGgufFamilies, model_type, &GgufFamily::model_type);
  return found == kGgufFamilies.end() ? nullptr : &*found;
}

std::vector<std::string> known_gguf_architectures() {
  std::set<std::string> names;
  for (const GgufFamily& family : kGgufFamilies) names.emplace(family.architecture);
  return {names.begin(), names.end()};
}

std::string GgufNameMatch::gguf() const { return filled(rule->gguf, layer, expert) + suffix; }
std::string GgufNameMatch::hugging_face() const { return hugging_face(expert); }
std::string GgufNameMatch::hugging_face(std::int64_t expert_number) const {
  return filled(rule->hugging_face, layer, expert_number) + suffix;
}

std::optional<GgufNameMatch> match_gguf_name(const GgufFamily& family, std::string_view name) {
  return match(family, name, &GgufNameRule::gguf);
}
std::optional<GgufNameMatch> match_hugging_face_name(const GgufFamily& family, std::string_view name) {
  return match(family, name, &GgufNameRule::hugging_face);
}

}  // namespace ingot
