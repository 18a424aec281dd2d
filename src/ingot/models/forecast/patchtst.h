#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ingot/models/forecast/model.h"
#include "ingot/models/forecast/parts.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// The normalization between a PatchTST's sublayers: over batch, channels and patches for each feature
/// ("batchnorm", with running statistics), or over the features ("layernorm").
struct PatchNorm {
  PatchNorm(const ParamSource& source, const ForecastModelConfig& config);
  /// x: [N, tokens, d_model].
  Tensor operator()(const Tensor& x, bool training) const;
  void visit(ParamVisitor& v);

  bool batch;
  float eps;
  Parameter weight, bias, running_mean, running_var;
};

struct PatchLayer {
  PatchLayer(const ParamSource& source, const ForecastModelConfig& config);
  /// x: [B, channels, patches, d_model]. `scores` are those of the layers before, and get this one's,
  /// where the configuration has residual attention.
  Tensor operator()(const Tensor& x, ResidualScores& scores, bool training) const;
  void visit(ParamVisitor& v);

 private:
  Tensor attention_sublayer(const Tensor& x, const PatchNorm& norm, ResidualScores* residual,
                            bool training) const;

  ForecastModelConfig config_;
  Linear query_, key_, value_, out_;
  PatchNorm time_norm_;
  std::unique_ptr<PatchNorm> channel_norm_;  // with channel_attention
  Linear up_, down_;
  PatchNorm ff_norm_;
};

/// PatchTST (Nie et al. 2023): a window is cut into patches, which are the tokens of an encoder; channels are
/// independent, or (`channel_attention`) attend to each other. One class for the published code (post-norm,
/// residual attention, a repeated end, the defaults) and for transformers' checkpoints (see
/// patchtst_from_transformers). Parameters carry transformers' names.
class PatchTst final : public ForecastModel {
 public:
  PatchTst(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return positions_.value.device(); }

  // The steps of a forecast around the layers.

  /// x: [B, channels, lookback] to [B, channels, patches, patch_length], a view.
  Tensor patches(const Tensor& x) const;
  /// Patches to tokens with their positions: [B, channels, tokens, d_model].
  Tensor embed(const Tensor& patches) const;
  /// Tokens [B, channels, tokens, d_model] to the horizon, [B, channels, horizon].
  Tensor head(const Tensor& x) const;

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  std::vector<std::unique_ptr<Linear>> embedding_;
  Parameter positions_, cls_token_;
  std::vector<std::unique_ptr<PatchLayer>> layers_;
  std::vector<std::unique_ptr<Linear>> head_;
};

/// The configuration that a transformers config.json of a PatchTSTForPrediction stands for. FormatError for
/// another model, NotImplemented for a distribution head, InvalidConfig for values that cannot be.
ForecastModelConfig patchtst_from_transformers(const std::string& json, const std::string& path);
/// The other way. InvalidConfig naming the key for a network that transformers does not have: one with a
/// repeated end, residual attention or a feature-major head, as the published code has them.
std::string patchtst_to_transformers(const ForecastModelConfig& config);
/// Writes config.json and model.safetensors, which transformers opens as a PatchTSTForPrediction. Throws as
/// patchtst_to_transformers does, before anything is written.
void write_patchtst(const std::string& directory, ForecastModel& model);

}  // namespace ingot
