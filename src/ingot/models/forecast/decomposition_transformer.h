#pragma once

#include <memory>
#include <vector>

#include "ingot/models/forecast/data_embedding.h"
#include "ingot/models/forecast/model.h"
#include "ingot/models/forecast/series_mixer.h"
#include "ingot/models/forecast/series_parts.h"

namespace ingot {

/// The feed-forward part of both kinds of layers: two convolutions over one step, without biases.
struct SeriesFeedForward {
  SeriesFeedForward(const ParamSource& source, const ForecastModelConfig& config);
  Tensor operator()(const Tensor& x, bool training) const;
  void visit(ParamVisitor& v);

  Parameter conv1, conv2;  // [d_ff, d_model, 1] and back
  std::string activation;
  double dropout;
};

/// Mixing and feed-forward, each less its trend.
struct DecompositionEncoderLayer {
  DecompositionEncoderLayer(const ParamSource& source, const ForecastModelConfig& config,
                            std::shared_ptr<SeriesMixer> mixer);
  /// x: [B, length, d_model].
  Tensor operator()(const Tensor& x, bool training) const;
  void visit(ParamVisitor& v);

  MixingLayer attention;
  SeriesFeedForward feed_forward;
  SeriesTrend trend1, trend2;
  double dropout;
};

/// Mixing with itself, mixing with the encoder's result, feed-forward; the trends that they leave behind are
/// projected to the channels.
struct DecompositionDecoderLayer {
  struct Result {
    Tensor season;  ///< [B, length, d_model]
    Tensor trend;   ///< [B, length, channels], to be added to the trend so far
  };
  DecompositionDecoderLayer(const ParamSource& source, const ForecastModelConfig& config,
                            std::shared_ptr<SeriesMixer> self, std::shared_ptr<SeriesMixer> cross);
  Result operator()(const Tensor& x, const Tensor& encoded, bool training) const;
  void visit(ParamVisitor& v);

  MixingLayer self_attention, cross_attention;
  SeriesFeedForward feed_forward;
  SeriesTrend trend1, trend2, trend3;
  CircularConv projection;
  double dropout;
};

/// Autoformer (Wu et al. 2021) and FEDformer (Zhou et al. 2022): an encoder and a decoder that split trends
/// from what is seasonal after every step. They differ in what mixes the steps. Parameters carry the names of
/// the published code.
class DecompositionTransformer final : public ForecastModel {
 public:
  DecompositionTransformer(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return projection_.device(); }

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  SeriesTrend trend_;
  DataEmbedding encoder_embedding_, decoder_embedding_;
  std::vector<std::unique_ptr<DecompositionEncoderLayer>> encoder_;
  std::vector<std::unique_ptr<DecompositionDecoderLayer>> decoder_;
  SeasonalNorm encoder_norm_, decoder_norm_;
  Linear projection_;
};

}  // namespace ingot
