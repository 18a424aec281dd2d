#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ingot/models/forecast/data_embedding.h"
#include "ingot/nn/conv.h"
#include "ingot/nn/norm.h"

namespace ingot {

/// The weights of one convolution.
struct ConvWeights {
  Tensor weight, bias;
};

/// The mean of 2-d convolutions with kernels 1, 3, 5, ... on one input. Convolutions are linear, so it is one
/// convolution with the largest kernel, whose weights are the mean of all, each padded with zeros: 121
/// matmuls instead of 286 for six kernels. Parameters: kernels.0.weight, kernels.0.bias, kernels.1.weight,
/// ...
struct InceptionBlock {
  InceptionBlock(const ParamSource& source, std::int64_t in, std::int64_t out, std::int64_t kernels);
  void visit(ParamVisitor& v);
  ConvWeights merged() const;

  std::vector<std::unique_ptr<Conv2d>> kernels;
};

/// One block of TimesNet: a series is folded into images, one per dominant period (a row is one period),
/// which go through two inception blocks; the results are mixed by the amplitudes of their frequencies.
class TimesBlock {
 public:
  TimesBlock(const ParamSource& source, const ForecastModelConfig& config);
  void visit(ParamVisitor& v);
  /// x: [B, steps, d_model]. While training, the periods are those of the whole batch, as published;
  /// otherwise every window has its own, so that a forecast does not depend on what else is in its batch.
  Tensor operator()(const Tensor& x, bool training) const;
  /// Weights have changed.
  void forget_derived();

 private:
  struct Weights {
    ConvWeights up, down;
  };
  Weights weights(bool training) const;

  std::int64_t top_k_;
  InceptionBlock up_, down_;
  mutable std::mutex merging_;  // forward may run on several threads
  mutable std::unique_ptr<Weights> merged_;
};

/// TimesNet (Wu et al. 2023): embeds every step, continues the embedded series linearly over the horizon, and
/// refines it by TimesBlocks. Parameters carry the names of Time-Series-Library.
class TimesNet final : public ForecastModel {
 public:
  TimesNet(const ForecastModelConfig& config, const ParamSource& source);
  void visit(ParamVisitor& v) override;
  Device device() const override { return norm_.weight.value.device(); }

 protected:
  Tensor forward(const ForecastInput& input) const override;

 private:
  void forget_derived() override;

  DataEmbedding embedding_;
  Linear continuation_;
  std::vector<std::unique_ptr<TimesBlock>> blocks_;
  LayerNorm norm_;
  Linear projection_;
};

}  // namespace ingot
