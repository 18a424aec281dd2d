#include <cmath>

#include <nlohmann/json.hpp>

#include "ingot/models/language/families/families.h"
#include "ingot/models/require.h"

namespace ingot::families {
namespace {

void read_granite(const ConfigFile& file, LanguageConfig& c) {
  double divisor = 1;
  c.attention_multiplier = 1;
  file.read("embedding_multiplier", c.embedding_multiplier);
  file.read("attention_multiplier", c.attention_multiplier);
  file.read("residual_multiplier", c.residual_multiplier);
  file.read("logits_scaling", divisor);
  require(divisor > 0, "logits_scaling", "must be positive");
  c.logit_scale = 1 / divisor;
}

void write_granite(const LanguageConfig& c, nlohmann::ordered_json& json) {
  json["embedding_multiplier"] = c.embedding_multiplier;
  json["attention_multiplier"] =
      c.attention_multiplier > 0 ? c.attention_multiplier : 1 / std::sqrt(static_cast<double>(c.head_dim));
  json["residual_multiplier"] = c.residual_multiplier;
  json["logits_scaling"] = 1 / c.logit_scale;
}

}  // namespace

std::vector<LanguageFamily> granite() {
  return {
      {.model_type = "granite",
       .architecture = "GraniteForCausalLM",
       .summary = "Granite 3 and 4, dense: Llama with multipliers",
       .variants = {"multipliers of embeddings, scores, residuals and logits", "attention and MLP biases"},
       .repositories = {"ibm-granite/granite-3.3-2b-instruct", "ibm-granite/granite-3.1-8b-base"},
       .defaults = R"({"rms_norm_eps": 1e-6})",
       .mlp_bias_key = "mlp_bias",
       .read = read_granite,
       .write = write_granite}};
}

}  // namespace ingot::families
