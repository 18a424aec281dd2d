#include "ingot/models/language/families/families.h"
#include "ingot/models/language/families/gguf_rules.h"

namespace ingot::families {

std::vector<LanguageFamily> exaone() {
  return {
      {.model_type = "exaone4",
       .architecture = "Exaone4ForCausalLM",
       .summary = "EXAONE 4: norms behind attention and MLP alone, full layers without RoPE",
       .variants = {"sliding layers, or all full with RoPE"},
       .repositories = {"LGAI-EXAONE/EXAONE-4.0-1.2B", "LGAI-EXAONE/EXAONE-4.0-32B"},
       .traits = {.norm_placement = NormPlacement::post, .qk_norm = QkNorm::head, .rope_needs_window = true},
       .sliding_pattern = 4,
       .defaults = R"({"num_key_value_heads": 32, "sliding_window": 4096})",
       .attention_bias_key = {},
       .gguf = {.architecture = "exaone4",
                .names = kPostNormNames,
                .keys = kLlamaKeys,
                .fixed = R"({"sliding_window": null})"}}};
}

}  // namespace ingot::families
