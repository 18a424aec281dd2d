#include "ingot/models/forecast/series_parts.h"

#include <array>
#include <cmath>
#include <utility>

#include "ingot/models/forecast/parts.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/delay.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/moving_average.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

std::int64_t count(const std::vector<std::int64_t>& windows) {
  return static_cast<std::int64_t>(windows.size());
}

// A map of one number, as PyTorch starts it; absent where there is nothing to share.
Parameter take_share(const ParamSource& source, std::string_view name, const Shape& shape, bool wanted) {
  return wanted ? source.take(name, shape, init::Uniform{-1, 1}) : Parameter();
}

Parameter take_temporal(const ParamSource& source, std::int64_t width, std::int64_t features) {
  if (features == 0) return {};
  const double bound = 1 / std::sqrt(static_cast<double>(features));
  return source.take("temporal_embedding.embed.weight", {width, features}, init::Uniform{-bound, bound});
}

}  // namespace

SeriesTrend::SeriesTrend(const ParamSource& source, std::vector<std::int64_t> windows_)
    : windows(std::move(windows_)),
      weight(take_share(source, "layer.weight", {count(windows), 1}, count(windows) > 1)),
      bias(take_share(source, "layer.bias", {count(windows)}, count(windows) > 1)) {}

Tensor SeriesTrend::operator()(const Tensor& x) const {
  if (windows.size() == 1) return moving_average(x, windows[0], 1);
  std::vector<Tensor> averages;
  for (const std::int64_t window : windows) averages.push_back(moving_average(x, window, 1));
  const Tensor shares = softmax(linear(unsqueeze(x, -1), weight.value, bias.value));
  return sum(stack(averages, -1) * shares, {-1});
}

void SeriesTrend::visit(ParamVisitor& v) {
  v("layer.weight", weight);
  v("layer.bias", bias);
}

SeasonalNorm::SeasonalNorm(const ParamSource& source, std::int64_t width)
    : norm(source.scope("layernorm"), {.width = width}) {}

Tensor SeasonalNorm::operator()(const Tensor& x) const {
  const Tensor y = norm(x);
  return y - mean(y, {1}, true);
}

void SeasonalNorm::visit(ParamVisitor& v) { v("layernorm", norm); }

CircularConv::CircularConv(const ParamSource& source, std::int64_t in, std::int64_t out, const Init& init)
    : weight(source.take("weight", {out, in, 3}, init)) {}

Tensor CircularConv::operator()(const Tensor& x) const {
  const std::int64_t out = weight.value.dim(0), in = weight.value.dim(1);
  if (in <= out) {  // the three steps side by side, in the weight's order
    const Tensor steps = stack(std::array{roll(x, 1, 1), x, roll(x, -1, 1)}, 3);
    return linear(reshape(steps, {x.dim(0), x.dim(1), in * 3}), reshape(weight.value, {out, in * 3}));
  }
  // Fewer outputs than inputs: each step's share of three neighbouring outputs, which are then added.
  const Tensor shares = linear(x, reshape(permute(weight.value, {2, 0, 1}), {3 * out, in}));
  const std::vector<Tensor> parts = chunk(shares, 3, -1);
  return roll(parts[0], 1, 1) + parts[1] + roll(parts[2], -1, 1);
}

void CircularConv::visit(ParamVisitor& v) { v("weight", weight); }

SeriesEmbedding::SeriesEmbedding(const ParamSource& source, std::int64_t channels, std::int64_t time_features,
                                 std::int64_t width, double dropout_)
    : value(source.scope("value_embedding.tokenConv"), channels, width,
            init::Kaiming{.distribution = init::Distribution::normal}),
      temporal(take_temporal(source, width, time_features)),
      dropout(dropout_) {}

Tensor SeriesEmbedding::operator()(const Tensor& x, const Tensor& marks, bool training) const {
  Tensor y = value(x);
  if (temporal) y = y + linear(marks, temporal.value);
  return drop(y, dropout, training);
}

void SeriesEmbedding::visit(ParamVisitor& v) {
  v("value_embedding.tokenConv", value);
  v("temporal_embedding.embed.weight", temporal);
}

}  // namespace ingot
