#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr DecoderTraits kCohere{
    .norm = NormKind::layer_no_bias, .norm_placement = NormPlacement::parallel, .interleaved_rope = true};

DecoderTraits cohere2_traits() {
  DecoderTraits traits = kCohere;
  traits.rope_needs_window = true;
  return traits;
}

void read_cohere(const ConfigFile& file, LanguageConfig& c) {
  c.logit_scale = 0.0625;
  file.read("logit_scale", c.logit_scale);
  bool qk_norm = false;
  file.read("use_qk_norm", qk_norm);
  INGOT_CHECK(!qk_norm, NotImplemented(file.path() + ": use_qk_norm true (false is)"));
}

void write_cohere(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["logit_scale"] = c.logit_scale;
}

constexpr auto kCohereNames = kOuter + kAttention + kMlp;
constexpr auto kCohereKeys =
    kLayerNormKeys + std::array<GgufKeyRule, 1>{{{"logit_scale", "logit_scale", number}}};

}  // namespace

std::vector<LanguageFamily> cohere() {
  return {
      {.model_type = "cohere",
       .architecture = "CohereForCausalLM",
       .summary = "Command R and Aya: attention and MLP side by side",
       .variants = {"attention biases or none"},
       .repositories = {"CohereLabs/c4ai-command-r-v01", "CohereLabs/aya-23-8B"},
       .traits = kCohere,
       .tied = true,
       .defaults = R"({"layer_norm_eps": 1e-5, "max_position_embeddings": 8192, "rope_theta": 500000.0})",
       .norm_eps_key = "layer_norm_eps",
       .read = read_cohere,
       .write = write_cohere,
       .gguf = {.architecture = "command-r", .names = kCohereNames, .keys = kCohereKeys}},
      {.model_type = "cohere2",
       .architecture = "Cohere2ForCausalLM",
       .summary = "Command R7B and Command A: sliding layers with RoPE, full ones without",
       .variants = {"layer_types, or one full layer in four"},
       .repositories = {"CohereLabs/c4ai-command-r7b-12-2024", "CohereLabs/c4ai-command-a-03-2025"},
       .traits = cohere2_traits(),
       .tied = true,
       .sliding_pattern = 4,
       .defaults = R"({"layer_norm_eps": 1e-5, "max_position_embeddings": 8192, "sliding_window": 4096})",
       .norm_eps_key = "layer_norm_eps",
       .read = read_cohere,
       .write = write_cohere,
       .gguf = {.architecture = "cohere2",
                .names = kCohereNames,
                .keys = kCohereKeys,
                .fixed = R"({"sliding_window": null})"}},
  };
}

}  // namespace ingot::families
