#include "ingot/models/forecast/series_parts.h"

#include <utility>

#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/moving_average.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/ops/weighted_roll.h"

namespace ingot {
namespace {

std::int64_t count(const std::vector<std::int64_t>& windows) {
  return static_cast<std::int64_t>(windows.size());
}

// A map of one number, as PyTorch starts it; absent where there is nothing to share.
Parameter take_share(const ParamSource& source, std::string_view name, const Shape& shape, bool wanted) {
  return wanted ? source.take(name, shape, init::Uniform{-1, 1}) : Parameter();
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
  // One matmul for each step's shares of three neighbouring outputs, which are then added: cheap for few
  // outputs.
  const Tensor shares = linear(x, reshape(permute(weight.value, {2, 0, 1}), {3 * out, in}));
  const std::vector<Tensor> parts = chunk(shares, 3, -1);
  return roll(parts[0], 1, 1) + parts[1] + roll(parts[2], -1, 1);
}

void CircularConv::visit(ParamVisitor& v) { v("weight", weight); }

}  // namespace ingot
