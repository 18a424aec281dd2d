#include <array>

#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

void map_apertus(const LanguageConfig& /*config*/, WeightMap& map) {
  map_name(map, "input_layernorm", "attention_layernorm");
  map_name(map, "post_attention_layernorm", "feedforward_layernorm");
  for (const char* scalar : {"beta", "eps"}) {
    const std::string name = std::string("model.layers.*.mlp.act_fn.") + scalar;
    map.rules.push_back({.ours = name, .theirs = name, .stacked = 1});
  }
}

constexpr auto kApertusNames =
    kEnds + kAttention + kHeadNorms + kPlainMlp +
    std::array<GgufNameRule, 2>{{{"blk.*.attn_norm", "model.layers.*.attention_layernorm"},
                                 {"blk.*.ffn_norm", "model.layers.*.feedforward_layernorm"}}};
constexpr std::array<GgufLayerNumber, 4> kXielu{{{"xielu.alpha_p", "model.layers.*.mlp.act_fn.alpha_p"},
                                                 {"xielu.alpha_n", "model.layers.*.mlp.act_fn.alpha_n"},
                                                 {"xielu.beta", "model.layers.*.mlp.act_fn.beta", true},
                                                 {"xielu.eps", "model.layers.*.mlp.act_fn.eps", true}}};

}  // namespace

std::vector<LanguageFamily> apertus() {
  return {
      {.model_type = "apertus",
       .architecture = "ApertusForCausalLM",
       .summary = "Apertus: xIELU, an activation with learned numbers in every layer; norms of heads",
       .variants = {"attention biases", "Llama 3's RoPE scaling"},
       .repositories = {"swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-70B-2509"},
       .traits = {.mlp = MlpKind::xielu, .qk_norm = QkNorm::head},
       .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 65536, "rope_theta": 12000000.0,
                       "rope_parameters": {"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0,
                         "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0}})",
       .map_weights = map_apertus,
       .gguf =
           {.architecture = "apertus", .names = kApertusNames, .keys = kLlamaKeys, .layer_numbers = kXielu}},
  };
}

}  // namespace ingot::families
