#pragma once

#include <memory>
#include <vector>

#include "ingot/models/forecast/model.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/norm.h"

namespace ingot {

/// One layer of a post-norm encoder: x = norm1(x + attention(x)); x = norm2(x + conv2(gelu(conv1(x)))). The
/// convolutions of the published code have kernel 1; their weights keep that shape, [out, in, 1].
struct ForecastEncoderLayer {
  ForecastEncoderLayer(const ParamSource& source, const ForecastModelConfig& config);
  /// x: [B, tokens, d_model].
  Tensor operator()(const Tensor& x, bool training) const;
  void visit(ParamVisitor& v);

  ForecastModelConfig config;
  Linear query, key, value, out;
  Parameter conv1_weight, conv1_bias, conv2_weight, conv2_bias;
  LayerNorm norm1, norm2;
};

/// iTransformer (Liu et al. 2024): every channel's whole window is one token, and so is every calendar
/// feature's; attention runs across them. Parameters carry the names of Time-Series-Library.
class ITransformer final : public ForecastModel {
 public:
  ITransformer(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return norm_.weight.value.device(); }

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  Linear embedding_;
  std::vector<std::unique_ptr<ForecastEncoderLayer>> layers_;
  LayerNorm norm_;
  Linear projection_;
};

}  // namespace ingot
