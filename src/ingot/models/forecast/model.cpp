#include "ingot/models/forecast/model.h"

#include "ingot/base/error.h"
#include "ingot/models/forecast/itransformer.h"
#include "ingot/models/forecast/linear_models.h"
#include "ingot/models/forecast/patchtst.h"

namespace ingot {

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
  if (config.model == "dlinear") return std::make_unique<DLinear>(config, source);
  if (config.model == "nlinear") return std::make_unique<NLinear>(config, source);
  if (config.model == "patchtst") return std::make_unique<PatchTst>(config, source);
  return std::make_unique<ITransformer>(config, source);
}

}  // namespace ingot
