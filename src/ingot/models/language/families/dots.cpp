#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {
namespace {

constexpr auto kDotsNames = kHeadNormNames + kExperts + kSharedExperts;

}  // namespace

std::vector<LanguageFamily> dots() {
  return {{.model_type = "dots1",
           .architecture = "Dots1ForCausalLM",
           .summary = "dots.llm1: a mixture of experts routed as DeepSeek V3's, with norms of heads",
           .variants = {"first layers dense", "groups of experts", "sliding layers or none"},
           .repositories = {"rednote-hilab/dots.llm1.inst", "rednote-hilab/dots.llm1.base"},
           .traits = {.qk_norm = QkNorm::head, .router_score = RouterScore::sigmoid, .router_bias = true},
           .experts = true,
           .defaults = R"({"rms_norm_eps": 1e-6, "sliding_window": 4096, "max_window_layers": 62,
                           "num_key_value_heads": 32, "moe_intermediate_size": 1408, "norm_topk_prob": false})",
           .read = read_deepseek_experts,
           .write = write_deepseek_experts,
           .map_weights = map_deepseek_experts,
           .gguf = {.architecture = "dots1",
                    .names = kDotsNames,
                    .keys = kDeepseekExpertKeys,
                    .fixed = R"({"sliding_window": null})",
                    .gating = 2}}};
}

}  // namespace ingot::families
