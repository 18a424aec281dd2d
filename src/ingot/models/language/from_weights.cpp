#include <cstring>

#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/tensor_parallel.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/models/require.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

std::vector<ParameterShape> parameter_shapes(const LanguageConfig& config) {
  ShapeRecorder shapes;
  const LanguageModel model(config, shapes);
  return shapes.parameters();
}

void note_variants(const LanguageConfig& c, ArchitectureReport& report) {
  report.variants.emplace_back(c.tie_word_embeddings ? "tied head" : "head of its own");
  if (language_family(c.model_type, "model_type").fused_projections) {
    report.variants.emplace_back("fused query, key and value");
  }
  if (c.num_experts > 0) report.variants.push_back(std::to_string(c.num_experts) + " experts");
}

// The tensor that the rules call `name`; undefined where the file has none.
Tensor stored_tensor(const WeightSource& weights, const WeightMap& map, std::string_view name) {
  for (const TensorInfo& info : weights.tensors())
    if (map.canonical(info.name) == name) return weights.load_tensor(info.name);
  return {};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor left = contiguous(a), right = contiguous(b);
  return std::memcmp(left.view().data, right.view().data, static_cast<std::size_t>(left.nbytes())) == 0;
}

}  // namespace

LanguageConfig with_head_of(const WeightSource& weights, LanguageConfig config) {
  if (!config.tie_word_embeddings) return config;
  const WeightMap map = language_weight_map(config);
  const Tensor head = stored_tensor(weights, map, "lm_head.weight");
  if (!head.defined()) return config;
  const std::string embedding = map.rule_for("model.embed_tokens.weight").theirs;
  const Tensor tokens = stored_tensor(weights, map, embedding);
  config.tie_word_embeddings = !tokens.defined() || same_bytes(head, tokens);
  return config;
}

std::int64_t LanguageConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterShape& parameter : parameter_shapes(*this)) count += parameter.shape.numel();
  return count;
}

WeightMap LanguageModel::weight_map(const LanguageConfig& config) { return language_weight_map(config); }

ArchitectureReport LanguageModel::architecture_check(const LanguageConfig& config,
                                                     const WeightSource& weights) {
  require_enough_tensors(config.num_hidden_layers, "num_hidden_layers", weights);
  ArchitectureReport report =
      check_architecture(parameter_shapes(config), language_weight_map(config), weights);
  report.family = config.model_type;
  note_variants(config, report);
  return report;
}

std::unique_ptr<LanguageModel> LanguageModel::from_weights(const LanguageConfig& given,
                                                           const WeightSource& weights,
                                                           const LoadOptions& options) {
  const LanguageConfig config = with_head_of(weights, given);
  architecture_check(config, weights).require(weights.location());
  MappedSource source(weights, language_weight_map(config), options);
  auto model = options.ranks != nullptr ? make_split_model(config, source, options.ranks)
                                        : std::make_unique<LanguageModel>(config, source);
  if (options.wide_vectors) model->activation_dtype = DType::f32;
  return model;
}

}  // namespace ingot
