#include "ingot/models/language/families/families.h"

namespace ingot::families {
namespace {

constexpr DecoderTraits kOlmo2{.norm_placement = NormPlacement::post, .qk_norm = QkNorm::width};

}  // namespace

std::vector<LanguageFamily> olmo() {
  return {
      {.model_type = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .summary = "OLMo 2: norms behind attention and MLP alone, and over all heads",
       .variants = {"attention biases", "every RoPE scaling"},
       .repositories = {"allenai/OLMo-2-0425-1B", "allenai/OLMo-2-1124-7B-Instruct"},
       .traits = kOlmo2},
      {.model_type = "olmo3",
       .architecture = "Olmo3ForCausalLM",
       .summary = "OLMo 3: OLMo 2 with sliding layers",
       .variants = {"layer_types, or one full layer in four", "scaled RoPE of full layers"},
       .repositories = {"allenai/Olmo-3-1025-7B", "allenai/Olmo-3-7B-Instruct"},
       .traits = kOlmo2,
       .sliding_pattern = 4,
       .defaults = R"({"rope_theta": 500000.0, "rope_local_base_freq": 500000.0, "sliding_window": 4096})"},
  };
}

}  // namespace ingot::families
