#include "ingot/models/forecast/future_effects.h"

#include "ingot/base/error.h"
#include "ingot/nn/init.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

ForecastModelConfig without_future_inputs(ForecastModelConfig config) {
  config.future_inputs = 0;
  return config;
}

}  // namespace

FutureEffects::FutureEffects(const ForecastModelConfig& config, const ParamSource& source)
    : ForecastModel(config),
      effect(source.take("future_effect", {config.channels, config.future_inputs}, init::kZeros)),
      shift(source.take("future_shift", {config.future_inputs}, init::kZeros, {.trainable = false})),
      scale(source.take("future_scale", {config.future_inputs}, init::kOnes, {.trainable = false})),
      network_(make_forecast_model(without_future_inputs(config), source)) {}

void FutureEffects::visit(ParamVisitor& v) {
  v("future_effect", effect);
  v("future_shift", shift);
  v("future_scale", scale);
  network_->visit(v);
}

// [B, steps, inputs] to [B, channels, steps].
Tensor FutureEffects::effect_of(const Tensor& inputs) const {
  return transpose(linear((inputs - shift.value) / scale.value, effect.value), 1, 2);
}

Tensor FutureEffects::forward(const ForecastInput& input) const {
  const auto check = [&](const Tensor& inputs, std::int64_t steps, const char* what) {
    const Shape expected{input.x.dim(0), steps, config().future_inputs};
    INGOT_CHECK(inputs.defined() && inputs.shape() == expected,
                ShapeMismatch(what, expected.to_vector(),
                              inputs.defined() ? inputs.shape().to_vector() : std::vector<std::int64_t>{},
                              "inputs that are known ahead"));
  };
  check(input.past_inputs, config().lookback, "past inputs");
  check(input.future_inputs, config().horizon, "future inputs");
  ForecastInput rest = input;
  rest.x = contiguous(input.x - effect_of(input.past_inputs));
  return (*network_)(rest) + effect_of(input.future_inputs);
}

}  // namespace ingot
