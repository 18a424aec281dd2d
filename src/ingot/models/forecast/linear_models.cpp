#include "ingot/models/forecast/linear_models.h"

#include <string>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/moving_average.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using Maps = std::vector<std::unique_ptr<Linear>>;

// One map over time, or one per channel ("name.0", "name.1", ...).
Maps make_maps(const ParamSource& source, const ForecastModelConfig& c, const std::string& name) {
  const LinearOptions options{.in = c.lookback, .out = c.horizon};
  Maps maps;
  if (!c.individual) {
    maps.push_back(std::make_unique<Linear>(source.scope(name), options));
    return maps;
  }
  for (std::int64_t i = 0; i < c.channels; ++i) {
    maps.push_back(std::make_unique<Linear>(source.scope(name, i), options));
  }
  return maps;
}

void visit_maps(ParamVisitor& v, const std::string& name, Maps& maps, bool individual) {
  individual ? v(name, maps) : v(name, *maps.front());
}

// map(x of one channel, its number), or map(all of x, 0) where one map serves all.
template <class Map>
Tensor over_channels(const Tensor& x, bool individual, Map&& map) {
  if (!individual) return map(x, std::size_t{0});
  std::vector<Tensor> results;
  for (std::int64_t c = 0; c < x.dim(1); ++c)
    results.push_back(map(select(x, 1, c), static_cast<std::size_t>(c)));
  return stack(results, 1);
}

}  // namespace

DLinear::DLinear(const ForecastModelConfig& config, const ParamSource& source)
    : ForecastModel(config),
      seasonal_(make_maps(source, config, "Linear_Seasonal")),
      trend_(make_maps(source, config, "Linear_Trend")) {}

DLinear::Folded DLinear::fold(std::size_t i) const {
  const Linear &seasonal = *seasonal_[i], &trend = *trend_[i];
  const Tensor weight = seasonal.weight.effective(), difference = trend.weight.effective() - weight;
  return {weight + moving_average_transposed(difference, config().moving_average),
          seasonal.bias.value + trend.bias.value};
}

void DLinear::forget_derived() {
  const std::scoped_lock lock(folding_);
  folded_.clear();
}

Tensor DLinear::forward(const ForecastInput& input) const {
  std::vector<Folded> folded;
  if (training() || grad_enabled()) {
    for (std::size_t i = 0; i < seasonal_.size(); ++i) folded.push_back(fold(i));
  } else {
    const std::scoped_lock lock(folding_);
    for (std::size_t i = folded_.size(); i < seasonal_.size(); ++i) folded_.push_back(fold(i));
    folded = folded_;
  }
  return over_channels(input.x, config().individual, [&](const Tensor& x, std::size_t i) {
    return linear(x, folded[i].weight, folded[i].bias);
  });
}

void DLinear::visit(ParamVisitor& v) {
  visit_maps(v, "Linear_Seasonal", seasonal_, config().individual);
  visit_maps(v, "Linear_Trend", trend_, config().individual);
}

NLinear::NLinear(const ForecastModelConfig& config, const ParamSource& source)
    : ForecastModel(config), maps_(make_maps(source, config, "Linear")) {}

Tensor NLinear::forward(const ForecastInput& input) const {
  const Tensor last = slice(input.x, 2, config().lookback - 1);
  return over_channels(input.x - last, config().individual,
                       [&](const Tensor& x, std::size_t i) { return (*maps_[i])(x); }) +
         last;
}

void NLinear::visit(ParamVisitor& v) { visit_maps(v, "Linear", maps_, config().individual); }

}  // namespace ingot
