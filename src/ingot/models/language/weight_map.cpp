#include "ingot/models/language/weight_map.h"

#include "ingot/models/language/family.h"

namespace ingot {

namespace {

// The text part of a model that also sees, as two generations of files call it.
void add_text_part(WeightMap& map) {
  const std::string variant = "part of an image-and-text model";
  map.spellings = {{"language_model.model.", "model.", true, variant},
                   {"model.language_model.", "model.", true, variant},
                   {"language_model.lm_head.", "lm_head.", true, ""}};
  map.ignored.insert(map.ignored.end(), {"vision_tower.*", "multi_modal_projector.*", "model.vision_tower.*",
                                         "model.multi_modal_projector.*", "vision_model.*"});
}

}  // namespace

// Ours are Llama's names, so most families need no rule.
WeightMap language_weight_map(const LanguageConfig& config) {
  WeightMap map{
      .rules = {},
      .spellings = {},
      .prefix = "model.",
      .outside = {"lm_head.*", "score.*"},
      .ignored = {"*.rotary_emb.inv_freq", "*.self_attn.k_scale", "*.self_attn.v_scale",
                  "*.self_attn.q_scale", "*.k_proj.output_scale", "*.v_proj.output_scale", "*.k_proj.k_scale",
                  "*.v_proj.v_scale", "score.*"}};  // of a classifier: classifier.h
  add_text_part(map);
  // Scales above are those of a quantized KV cache, which is f32, bf16 or f16 here.
  // A tied head is often stored all the same; it is the embedding once more.
  if (config.tie_word_embeddings) map.ignored.emplace_back("lm_head.weight");
  const LanguageFamily& family = language_family(config.model_type, "model_type");
  if (family.map_weights != nullptr) family.map_weights(config, map);
  return map;
}

std::string gguf_name_of(const LanguageConfig& config, const std::string& parameter) {
  const LanguageFamily& family = language_family(config.model_type, "model_type");
  const WeightMap map = language_weight_map(config);
  for (const std::string& theirs : sources_of(map.rule_for(parameter)))
    if (const auto match = match_hugging_face_name(named_for(family.gguf, config.num_experts > 0), theirs))
      return match->gguf();
  return {};
}

}  // namespace ingot
