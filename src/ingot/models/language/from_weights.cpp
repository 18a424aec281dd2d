#include "ingot/models/language/decoder.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/nn/param_source.h"

namespace ingot {
namespace {

std::vector<ParameterShape> parameter_shapes(const LanguageConfig& config) {
  ShapeRecorder shapes;
  const LanguageModel model(config, shapes);
  return shapes.parameters();
}

void note_variants(const LanguageConfig& c, ArchitectureReport& report) {
  report.variants.emplace_back(c.tie_word_embeddings ? "tied head" : "head of its own");
  if (c.model_type == "gpt2" || c.model_type == "phi3") {
    report.variants.emplace_back("fused query, key and value");
  }
  if (c.num_experts > 0) report.variants.push_back(std::to_string(c.num_experts) + " experts");
}

}  // namespace

std::int64_t LanguageConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterShape& parameter : parameter_shapes(*this)) count += parameter.shape.numel();
  return count;
}

WeightMap LanguageModel::weight_map(const LanguageConfig& config) { return language_weight_map(config); }

ArchitectureReport LanguageModel::architecture_check(const LanguageConfig& config,
                                                     const WeightSource& weights) {
  ArchitectureReport report =
      check_architecture(parameter_shapes(config), language_weight_map(config), weights);
  report.family = config.model_type;
  note_variants(config, report);
  return report;
}

std::unique_ptr<LanguageModel> LanguageModel::from_weights(const LanguageConfig& config,
                                                           const WeightSource& weights,
                                                           const LoadOptions& options) {
  architecture_check(config, weights).require(weights.location());
  MappedSource source(weights, language_weight_map(config), options);
  return std::make_unique<LanguageModel>(config, source);
}

}  // namespace ingot
