#pragma once

#include <map>
#include <memory>
#include <string>

#include "ingot/models/architecture_check.h"
#include "ingot/models/forecast/config.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// What a forecasting network reads.
struct ForecastInput {
  Tensor x;              ///< [B, channels, lookback]
  Tensor past_marks;     ///< [B, lookback, time_features]; undefined where there are none
  Tensor future_marks;   ///< [B, horizon, time_features]
  Tensor past_inputs;    ///< [B, lookback, future_inputs]; undefined where there are none
  Tensor future_inputs;  ///< [B, horizon, future_inputs]: the same of the steps to come
};

/// A network that continues several series: [B, channels, lookback] to [B, channels, horizon].
class ForecastModel {
 public:
  using Config = ForecastModelConfig;

  explicit ForecastModel(ForecastModelConfig config) : config_(std::move(config)) {}
  virtual ~ForecastModel() = default;
  ForecastModel(const ForecastModel&) = delete;
  ForecastModel& operator=(const ForecastModel&) = delete;

  /// Checkpoints carry our names, which for PatchTST are transformers'.
  static WeightMap weight_map(const ForecastModelConfig& config);
  /// Whether a checkpoint holds the network that `config` describes; reads no tensor.
  static ArchitectureReport architecture_check(const ForecastModelConfig& config,
                                               const WeightSource& weights);
  /// Checks, then loads. Throws Error that lists every missing, unexpected and mis-shaped tensor.
  static std::unique_ptr<ForecastModel> from_weights(const ForecastModelConfig& config,
                                                     const WeightSource& weights,
                                                     const LoadOptions& options = {});

  /// The forecast, on device(). Throws ShapeMismatch for an input of another shape than the configuration
  /// says.
  Tensor operator()(const ForecastInput& input) const;
  virtual void visit(ParamVisitor& v) = 0;
  /// Where the weights are, and inputs have to be.
  virtual Device device() const = 0;
  /// Dropout and batch statistics: on while training, off (the start) otherwise. Networks may keep what they
  /// derive from their weights while they are off and no gradients are recorded: whoever changes weights then
  /// calls this again.
  void set_training(bool training) {
    training_ = training;
    forget_derived();
  }
  bool training() const { return training_; }
  const ForecastModelConfig& config() const { return config_; }

 protected:
  virtual Tensor forward(const ForecastInput& input) const = 0;
  virtual void forget_derived() {}

 private:
  ForecastModelConfig config_;
  bool training_ = false;
};

/// The network that `config.model` names. Validates first.
std::unique_ptr<ForecastModel> make_forecast_model(const ForecastModelConfig& config,
                                                   const ParamSource& source);

}  // namespace ingot
