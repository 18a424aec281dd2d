#include "ingot/models/forecast/data_embedding.h"

#include <cmath>

#include "ingot/models/forecast/parts.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/pad.h"
#include "ingot/ops/view.h"

namespace ingot {

DataEmbedding::DataEmbedding(const ParamSource& source, const ForecastModelConfig& c, bool with_positions)
    : dropout(c.dropout),
      token_weight(source.take("value_embedding.tokenConv.weight", {c.d_model, c.channels, 3},
                               init::Kaiming{init::Distribution::normal})),
      time(c.time_features == 0 ? nullptr
                                : std::make_unique<Linear>(
                                      source.scope("temporal_embedding.embed"),
                                      LinearOptions{.in = c.time_features, .out = c.d_model, .bias = false})),
      positions(with_positions ? to(sinusoid_positions(c.lookback, c.d_model), token_weight.value.device())
                               : Tensor()) {}

Tensor DataEmbedding::operator()(const Tensor& x, const Tensor& marks, bool training) const {
  const Tensor around = pad(transpose(x, 1, 2), 1, 1, 1, PadMode::circular);
  Tensor y = conv1d(around, token_weight.value, {}, {.layout = ChannelLayout::last});
  if (time != nullptr) y = y + (*time)(marks);
  if (positions.defined()) y = y + positions;
  return drop(y, dropout, training);
}

void DataEmbedding::visit(ParamVisitor& v) {
  v("value_embedding.tokenConv.weight", token_weight);
  if (time != nullptr) v("temporal_embedding.embed", *time);
}

Tensor sinusoid_positions(std::int64_t steps, std::int64_t width) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(steps * width));
  for (std::int64_t t = 0; t < steps; ++t) {
    for (std::int64_t i = 0; i < width; ++i) {
      const double rate = std::pow(10000.0, -static_cast<double>(i - i % 2) / static_cast<double>(width));
      const double angle = static_cast<double>(t) * rate;
      values.push_back(static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  return Tensor::from(values, {steps, width});
}

}  // namespace ingot
