#pragma once

#include <mutex>
#include <vector>

#include "ingot/models/forecast/model.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// DLinear (Zeng et al. 2023): a window is split into its trend, a moving average with the ends repeated, and
/// the rest; each goes through a linear map over time, shared by all channels or (`individual`) one per
/// channel. Parameters are those of the published code: Linear_Seasonal and Linear_Trend.
///
/// Both maps are linear in the window, so they are folded into one before it is applied, which halves the
/// work: W_seasonal (I - M) + W_trend M with M the moving average. Outside training they are folded once.
class DLinear final : public ForecastModel {
 public:
  DLinear(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return seasonal_.front()->device(); }

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  struct Folded {
    Tensor weight, bias;
  };
  Folded fold(std::size_t map) const;
  void forget_derived() override;

  std::vector<std::unique_ptr<Linear>> seasonal_, trend_;  // one, or one per channel
  mutable std::mutex folding_;                             // forward may run on several threads
  mutable std::vector<Folded> folded_;
};

/// NLinear (Zeng et al. 2023): the last value is taken off a window, a linear map continues the rest, and the
/// last value is added again.
class NLinear final : public ForecastModel {
 public:
  NLinear(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return maps_.front()->device(); }

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  std::vector<std::unique_ptr<Linear>> maps_;
};

}  // namespace ingot
