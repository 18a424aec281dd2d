#include "ingot/models/forecast/model.h"

#include "ingot/base/error.h"
#include "ingot/models/forecast/decomposition_transformer.h"
#include "ingot/models/forecast/future_effects.h"
#include "ingot/models/forecast/itransformer.h"
#include "ingot/models/forecast/linear_models.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/models/forecast/times_net.h"

namespace ingot {
namespace {

std::vector<std::string> variants_of(const ForecastModelConfig& c) {
  if (c.model == "dlinear" || c.model == "nlinear")
    return {c.individual ? "weights for every channel" : "weights shared by all channels"};
  if (c.model == "fedformer") return {c.version, c.follow_paper ? "as in the paper" : "as published"};
  if (c.model != "patchtst") return {};
  return {c.channel_attention ? "channel-mixing" : "channel-independent", c.norm, c.positions + " positions",
          c.cls_token          ? "class token"
          : !c.pooling.empty() ? c.pooling + " pooling"
                               : "flattened head"};
}

}  // namespace

WeightMap ForecastModel::weight_map(const ForecastModelConfig&) {
  WeightMap map;
  map.ignored = {"*.num_batches_tracked"};  // PyTorch's batch norms count; ours need not
  return map;
}

ArchitectureReport ForecastModel::architecture_check(const ForecastModelConfig& config,
                                                     const WeightSource& weights) {
  ShapeRecorder shapes;
  make_forecast_model(config, shapes);
  ArchitectureReport report = check_architecture(shapes.parameters(), weight_map(config), weights);
  report.family = config.model;
  report.variants = variants_of(config);
  return report;
}

std::unique_ptr<ForecastModel> ForecastModel::from_weights(const ForecastModelConfig& config,
                                                           const WeightSource& weights,
                                                           const LoadOptions& options) {
  architecture_check(config, weights).require(weights.location());
  MappedSource source(weights, weight_map(config), options);
  return make_forecast_model(config, source);
}

Tensor ForecastModel::operator()(const ForecastInput& input) const {
  const Shape expected{input.x.rank() > 0 ? input.x.dim(0) : 1, config_.channels, config_.lookback};
  INGOT_CHECK(input.x.shape() == expected,
              ShapeMismatch(config_.model, expected.to_vector(), input.x.shape().to_vector(),
                            "a network reads [batch, channels, lookback]"));
  return forward(input);
}

std::unique_ptr<ForecastModel> make_forecast_model(const ForecastModelConfig& config,
                                                   const ParamSource& source) {
  config.validate();
  if (config.future_inputs > 0) return std::make_unique<FutureEffects>(config, source);
  if (config.model == "dlinear") return std::make_unique<DLinear>(config, source);
  if (config.model == "nlinear") return std::make_unique<NLinear>(config, source);
  if (config.model == "patchtst") return std::make_unique<PatchTst>(config, source);
  if (config.model == "timesnet") return std::make_unique<TimesNet>(config, source);
  if (config.model == "itransformer") return std::make_unique<ITransformer>(config, source);
  return std::make_unique<DecompositionTransformer>(config, source);
}

}  // namespace ingot
