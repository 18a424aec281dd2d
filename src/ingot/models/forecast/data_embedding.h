#pragma once

#include "ingot/models/forecast/model.h"
#include "ingot/nn/linear.h"

namespace ingot {

/// How Autoformer's kin read a window: every step is a token, made of a convolution over three neighbouring
/// steps of all channels (the window's ends meet), a linear map of its calendar features, and its position as
/// fixed sines and cosines. Parameters: value_embedding.tokenConv.weight [d_model, channels, 3],
/// temporal_embedding.embed.weight [d_model, time_features].
struct DataEmbedding {
  /// `with_positions`: with the sines and cosines, for windows of `lookback` steps.
  DataEmbedding(const ParamSource& source, const ForecastModelConfig& config, bool with_positions);
  /// x: [B, channels, steps]; marks: [B, steps, time_features]. Returns [B, steps, d_model].
  Tensor operator()(const Tensor& x, const Tensor& marks, bool training) const;
  void visit(ParamVisitor& v);

  double dropout;
  Parameter token_weight;
  std::unique_ptr<Linear> time;  ///< null without calendar features
  Tensor positions;              ///< [lookback, d_model], or undefined
};

/// sin(t·r_i), cos(t·r_i) interleaved, r_i = 10000^(−2i / width): [steps, width] (Vaswani et al. 2017).
Tensor sinusoid_positions(std::int64_t steps, std::int64_t width);

}  // namespace ingot
