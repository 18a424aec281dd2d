#include "ingot/models/forecast/decomposition_transformer.h"

#include <array>

#include "ingot/models/forecast/fourier_mixer.h"
#include "ingot/models/forecast/parts.h"
#include "ingot/models/forecast/wavelet_mixer.h"
#include "ingot/nn/activation.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

std::vector<std::int64_t> trend_windows(const ForecastModelConfig& c) {
  return c.model == "fedformer" ? c.moving_averages : std::vector<std::int64_t>{c.moving_average};
}

// The mixers of all layers: the published FEDformer has one for the encoder and two for the decoder, whatever
// the number of layers.
struct Mixers {
  std::shared_ptr<SeriesMixer> encoder, decoder, cross;
};

Mixers make_mixers(const ForecastModelConfig& c, const ParamSource& source) {
  if (c.model == "autoformer") {
    const auto mixer = std::make_shared<AutoCorrelation>(c.factor, c.follow_paper);
    return {mixer, mixer, mixer};
  }
  const ParamSource encoder = source.scope("encoder.attn_layers.0.attention.inner_correlation");
  const ParamSource decoder = source.scope("decoder.layers.0.self_attention.inner_correlation");
  const ParamSource cross = source.scope("decoder.layers.0.cross_attention.inner_correlation");
  if (c.version == "wavelets") {
    return {std::make_shared<WaveletMixer>(encoder, c), std::make_shared<WaveletMixer>(decoder, c),
            std::make_shared<WaveletCross>(cross, c)};
  }
  const std::int64_t decoded = c.start_length() + c.horizon;
  return {std::make_shared<FourierMixer>(encoder, c, c.lookback, 0),
          std::make_shared<FourierMixer>(decoder, c, decoded, 1),
          std::make_shared<FourierCross>(cross, c, decoded, c.lookback, 2)};
}

}  // namespace

SeriesFeedForward::SeriesFeedForward(const ParamSource& source, const ForecastModelConfig& c)
    : conv1(source.take("conv1.weight", {c.d_ff, c.d_model, 1}, init::fan_in_uniform(c.d_model))),
      conv2(source.take("conv2.weight", {c.d_model, c.d_ff, 1}, init::fan_in_uniform(c.d_ff))),
      activation(c.activation),
      dropout(c.dropout) {}

Tensor SeriesFeedForward::operator()(const Tensor& x, bool training) const {
  const Tensor hidden = activate(parse_activation(activation, "activation"), linear(x, kernel_matrix(conv1)));
  return drop(linear(drop(hidden, dropout, training), kernel_matrix(conv2)), dropout, training);
}

void SeriesFeedForward::visit(ParamVisitor& v) {
  v("conv1.weight", conv1);
  v("conv2.weight", conv2);
}

DecompositionEncoderLayer::DecompositionEncoderLayer(const ParamSource& source, const ForecastModelConfig& c,
                                                     std::shared_ptr<SeriesMixer> mixer)
    : attention(source.scope("attention"), c.d_model, std::move(mixer)),
      feed_forward(source, c),
      trend1(source.scope("decomp1"), trend_windows(c)),
      trend2(source.scope("decomp2"), trend_windows(c)),
      dropout(c.dropout) {}

Tensor DecompositionEncoderLayer::operator()(const Tensor& x, bool training) const {
  Tensor y = x + drop(attention(x, x, training), dropout, training);
  y = y - trend1(y);
  y = y + feed_forward(y, training);
  return y - trend2(y);
}

void DecompositionEncoderLayer::visit(ParamVisitor& v) {
  v("attention", attention);
  v("", feed_forward);
  v("decomp1", trend1);
  v("decomp2", trend2);
}

DecompositionDecoderLayer::DecompositionDecoderLayer(const ParamSource& source, const ForecastModelConfig& c,
                                                     std::shared_ptr<SeriesMixer> self,
                                                     std::shared_ptr<SeriesMixer> cross)
    : self_attention(source.scope("self_attention"), c.d_model, std::move(self)),
      cross_attention(source.scope("cross_attention"), c.d_model, std::move(cross)),
      feed_forward(source, c),
      trend1(source.scope("decomp1"), trend_windows(c)),
      trend2(source.scope("decomp2"), trend_windows(c)),
      trend3(source.scope("decomp3"), trend_windows(c)),
      projection(source.scope("projection"), c.d_model, c.channels, init::fan_in_uniform(3 * c.d_model)),
      dropout(c.dropout) {}

DecompositionDecoderLayer::Result DecompositionDecoderLayer::operator()(const Tensor& x,
                                                                        const Tensor& encoded,
                                                                        bool training) const {
  Tensor y = x + drop(self_attention(x, x, training), dropout, training);
  const Tensor first = trend1(y);
  y = y - first;
  y = y + drop(cross_attention(y, encoded, training), dropout, training);
  const Tensor second = trend2(y);
  y = y - second;
  y = y + feed_forward(y, training);
  const Tensor third = trend3(y);
  return {y - third, projection(first + second + third)};
}

void DecompositionDecoderLayer::visit(ParamVisitor& v) {
  v("self_attention", self_attention);
  v("cross_attention", cross_attention);
  v("", feed_forward);
  v("decomp1", trend1);
  v("decomp2", trend2);
  v("decomp3", trend3);
  v("projection", projection);
}

DecompositionTransformer::DecompositionTransformer(const ForecastModelConfig& c, const ParamSource& source)
    : ForecastModel(c),
      trend_(source.scope("decomp"), trend_windows(c)),
      encoder_embedding_(source.scope("enc_embedding"), c, false),
      decoder_embedding_(source.scope("dec_embedding"), c, false),
      encoder_norm_(source.scope("encoder.norm"), c.d_model),
      decoder_norm_(source.scope("decoder.norm"), c.d_model),
      projection_(source.scope("decoder.projection"), {.in = c.d_model, .out = c.channels}) {
  const Mixers mixers = make_mixers(c, source);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    encoder_.push_back(std::make_unique<DecompositionEncoderLayer>(source.scope("encoder.attn_layers", i), c,
                                                                   mixers.encoder));
  }
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    decoder_.push_back(std::make_unique<DecompositionDecoderLayer>(source.scope("decoder.layers", i), c,
                                                                   mixers.decoder, mixers.cross));
  }
}

Tensor DecompositionTransformer::forward(const ForecastInput& input) const {
  const ForecastModelConfig& c = config();
  const std::int64_t batch = input.x.dim(0), start = c.start_length();
  const Tensor x = contiguous(transpose(input.x, 1, 2));
  const bool marked = c.time_features > 0;
  const Tensor past = marked ? input.past_marks : Tensor();
  Tensor y = encoder_embedding_(input.x, past, training());
  for (const auto& layer : encoder_) y = (*layer)(y, training());
  const Tensor encoded = encoder_norm_(y);

  // The decoder starts from the last steps: their trend, which goes on at the window's mean, and what is left
  // of them, which goes on at 0.
  const auto last_steps = [&](const Tensor& t) { return narrow(t, 1, c.lookback - start, start); };
  const Tensor window_trend = trend_(x);
  const Tensor level = broadcast_to(mean(x, {1}, true), {batch, c.horizon, c.channels});
  const Tensor zeros = Tensor::zeros({batch, c.horizon, c.channels}, x.dtype(), x.device());
  Tensor trend = concat(std::array{last_steps(window_trend), level}, 1);
  const Tensor season = concat(std::array{last_steps(x - window_trend), zeros}, 1);
  const Tensor marks = marked ? concat(std::array{last_steps(past), input.future_marks}, 1) : Tensor();
  y = decoder_embedding_(transpose(season, 1, 2), marks, training());
  for (const auto& layer : decoder_) {
    const DecompositionDecoderLayer::Result result = (*layer)(y, encoded, training());
    y = result.season;
    trend = trend + result.trend;
  }
  const Tensor forecast = projection_(decoder_norm_(y)) + trend;
  return contiguous(transpose(narrow(forecast, 1, start, c.horizon), 1, 2));
}

void DecompositionTransformer::visit(ParamVisitor& v) {
  v("decomp", trend_);
  v("enc_embedding", encoder_embedding_);
  v("dec_embedding", decoder_embedding_);
  v("encoder.attn_layers", encoder_);
  v("encoder.norm", encoder_norm_);
  v("decoder.layers", decoder_);
  v("decoder.norm", decoder_norm_);
  v("decoder.projection", projection_);
}

}  // namespace ingot
