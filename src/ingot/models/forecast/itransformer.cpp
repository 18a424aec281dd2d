#include "ingot/models/forecast/itransformer.h"

#include <array>

#include "ingot/models/forecast/parts.h"
#include "ingot/models/forecast/revin.h"
#include "ingot/nn/activation.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
ForecastEncoderLayer::ForecastEncoderLayer(const ParamSource& source, const ForecastModelConfig& c)
    : config(c),
      query(source.scope("attention.query_projection"), {.in = c.d_model, .out = c.d_model}),
      key(source.scope("attention.key_projection"), {.in = c.d_model, .out = c.d_model}),
      value(source.scope("attention.value_projection"), {.in = c.d_model, .out = c.d_model}),
      out(source.scope("attention.out_projection"), {.in = c.d_model, .out = c.d_model}),
      conv1_weight(source.take("conv1.weight", {c.d_ff, c.d_model, 1}, init::fan_in_uniform(c.d_model))),
      conv1_bias(source.take("conv1.bias", {c.d_ff}, init::fan_in_uniform(c.d_model))),
      conv2_weight(source.take("conv2.weight", {c.d_model, c.d_ff, 1}, init::fan_in_uniform(c.d_ff))),
      conv2_bias(source.take("conv2.bias", {c.d_model}, init::fan_in_uniform(c.d_ff))),
      norm1(source.scope("norm1"), {.width = c.d_model}),
      norm2(source.scope("norm2"), {.width = c.d_model}) {}

Tensor ForecastEncoderLayer::operator()(const Tensor& x, bool training) const {
  const std::int64_t b = x.dim(0), n = x.dim(1), heads = config.heads, d = config.d_model;
  const auto split_heads = [&](const Tensor& t) { return reshape(t, {b, n, heads, d / heads}); };
  const Tensor mixed = attend(split_heads(query(x)), split_heads(key(x)), split_heads(value(x)), nullptr,
                              config.attention_dropout, training);
  const Tensor y = norm1.add(x, drop(out(reshape(mixed, {b, n, d})), config.dropout, training)).normed;
  Tensor hidden = linear(y, kernel_matrix(conv1_weight), conv1_bias.value);
  hidden =
      drop(activate(parse_activation(config.activation, "activation"), hidden), config.dropout, training);
  hidden = drop(linear(hidden, kernel_matrix(conv2_weight), conv2_bias.value), config.dropout, training);
  return norm2.add(y, hidden).normed;
}

void ForecastEncoderLayer::visit(ParamVisitor& v) {
  v("attention.query_projection", query);
  v("attention.key_projection", key);
  v("attention.value_projection", value);
  v("attention.out_projection", out);
  v("conv1.weight", conv1_weight);
  v("conv1.bias", conv1_bias);
  v("conv2.weight", conv2_weight);
  v("conv2.bias", conv2_bias);
  v("norm1", norm1);
  v("norm2", norm2);
}

ITransformer::ITransformer(const ForecastModelConfig& c, const ParamSource& source)
    : ForecastModel(c),
      embedding_(source.scope("enc_embedding.value_embedding"), {.in = c.lookback, .out = c.d_model}),
      norm_(source.scope("encoder.norm"), {.width = c.d_model}),
      projection_(source.scope("projection"), {.in = c.d_model, .out = c.horizon}) {
  for (std::int64_t i = 0; i < c.layers; ++i) {
    layers_.push_back(std::make_unique<ForecastEncoderLayer>(source.scope("encoder.attn_layers", i), c));
  }
}

Tensor ITransformer::forward(const ForecastInput& input) const {
  const ForecastModelConfig& c = config();
  const RevIN window = c.normalize_window ? RevIN::standard(input.x) : RevIN();
  Tensor x = window.apply(input.x);
  if (c.time_features > 0) x = concat(std::array{x, transpose(input.past_marks, 1, 2)}, 1);
  x = drop(embedding_(x), c.dropout, training());
  for (const auto& layer : layers_) x = (*layer)(x, training());
  return window.undo(projection_(slice(norm_(x), 1, 0, c.channels)));
}

void ITransformer::visit(ParamVisitor& v) {
  v("enc_embedding.value_embedding", embedding_);
  v("encoder.attn_layers", layers_);
  v("encoder.norm", norm_);
  v("projection", projection_);
}

}  // namespace ingot
