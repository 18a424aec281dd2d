#pragma once

#include <memory>

#include "ingot/models/forecast/model.h"

namespace ingot {

/// Any network beside a linear effect of inputs that are known ahead, such as prices and holidays: the
/// network continues what the look-back is without their effect, and the effect of those to come is added.
/// With c = (inputs - shift) / scale, y = network(x - effect·c(past)) + effect·c(future). Nothing but these
/// inputs is read ahead.
class FutureEffects final : public ForecastModel {
 public:
  FutureEffects(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return network_->device(); }

  Parameter effect;        ///< [channels, future_inputs]; starts as zeros
  Parameter shift, scale;  ///< [future_inputs], of the training part; not trained

 protected:
  Tensor forward(const ForecastInput& input) const override;
  void forget_derived() override { network_->set_training(training()); }

 private:
  Tensor effect_of(const Tensor& inputs) const;
  std::unique_ptr<ForecastModel> network_;
};

}  // namespace ingot
