#include "ingot/forecast/input_effects.h"

#include <algorithm>
#include <cmath>

#include "ingot/models/forecast/future_effects.h"
#include "ingot/ops/cast.h"

namespace ingot::forecast {
namespace {

// Takes the mean at each position of the season off.
void centre_by_season(std::vector<double>& changes, const std::vector<bool>& counts, std::size_t season) {
  std::vector<double> sums(season), numbers(season);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!counts[i]) continue;
    sums[i % season] += changes[i];
    numbers[i % season] += 1;
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i] = counts[i] ? changes[i] - sums[i % season] / numbers[i % season] : 0;
  }
}

std::vector<double> changes_of(std::span<const double> values) {
  std::vector<double> changes;
  for (std::size_t row = 1; row < values.size(); ++row) changes.push_back(values[row] - values[row - 1]);
  return changes;
}

// Solves the symmetric system a·x = b by Cholesky's method; a is [n, n], positive definite.
std::vector<double> solve_symmetric(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  const auto at = [&](std::size_t i, std::size_t j) -> double& { return a[i * n + j]; };
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
    at(j, j) = std::sqrt(at(j, j));
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) /= at(j, j);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= at(i, k) * b[k];
    b[i] /= at(i, i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= at(k, i) * b[k];
    b[i] /= at(i, i);
  }
  return b;
}

// Mean and deviation of the inputs over the training rows of all series.
struct InputScales {
  std::vector<double> shift, scale;
};

std::int64_t train_rows(const SeriesTable& table, const SplitOptions& split, const Series& series) {
  return borders_of(split, series, table).train;
}

InputScales scales_of_inputs(const SeriesTable& table, const SplitOptions& split) {
  const std::size_t inputs = table.future_names.size();
  InputScales scales{std::vector<double>(inputs), std::vector<double>(inputs)};
  for (std::size_t i = 0; i < inputs; ++i) {
    double count = 0;
    const auto over_rows = [&](const auto& add) {
      for (const Series& s : table.series) {
        for (std::int64_t row = 0; row < train_rows(table, split, s); ++row)
          add(s.future[i][static_cast<std::size_t>(row)]);
      }
    };
    over_rows([&](double v) {
      scales.shift[i] += v;
      ++count;
    });
    scales.shift[i] /= std::max(1.0, count);
    over_rows([&](double v) { scales.scale[i] += (v - scales.shift[i]) * (v - scales.shift[i]); });
    scales.scale[i] = std::sqrt(scales.scale[i] / std::max(1.0, count));
    if (!(scales.scale[i] > 0)) scales.scale[i] = 1;
  }
  return scales;
}

}  // namespace

void EffectSums::add(std::span<const double> y, const std::vector<std::span<const double>>& inputs,
                     std::int64_t season, const std::vector<bool>& made_up) {
  if (y.size() < 2) return;
  std::vector<bool> counts(y.size() - 1, true);
  for (std::size_t i = 0; i < counts.size() && !made_up.empty(); ++i)
    counts[i] = !made_up[i] && !made_up[i + 1];
  const auto rows = static_cast<std::int64_t>(y.size());
  const auto cycle = static_cast<std::size_t>(season > 1 && 3 * season <= rows ? season : 1);
  std::vector<double> dy = changes_of(y);
  centre_by_season(dy, counts, cycle);
  std::vector<std::vector<double>> dx;
  for (const std::span<const double> input : inputs) {
    dx.push_back(changes_of(input.first(y.size())));
    centre_by_season(dx.back(), counts, cycle);
  }
  for (std::size_t row = 0; row < dy.size(); ++row) {
    if (!counts[row]) continue;
    ++changes_;
    for (std::size_t i = 0; i < inputs_; ++i) {
      with_y_[i] += dx[i][row] * dy[row];
      for (std::size_t j = 0; j < inputs_; ++j) products_[i * inputs_ + j] += dx[i][row] * dx[j][row];
    }
  }
}

std::vector<double> EffectSums::solve() const {
  if (changes_ < 2 * inputs_ + 2) return std::vector<double>(inputs_);
  // Inputs that say the same share an effect; those that never change have none.
  std::vector<double> a = products_;
  for (std::size_t i = 0; i < inputs_; ++i) {
    double& own = a[i * inputs_ + i];
    own = own > 0 ? own * (1 + 1e-6) : 1;
  }
  return solve_symmetric(std::move(a), with_y_);
}

void start_effects(ForecastModel& model, const SeriesTable& table, const SplitOptions& split,
                   const DataSplit& parts) {
  auto* effects = dynamic_cast<FutureEffects*>(&model);
  if (effects == nullptr) return;
  const std::size_t inputs = table.future_names.size(), columns = table.column_names.size();
  const InputScales scales = scales_of_inputs(table, split);
  std::vector<EffectSums> sums(columns, EffectSums(inputs));
  for (const auto& scaled_series : parts.series) {
    const Series& series = *std::ranges::find(table.series, scaled_series->id, &Series::id);
    const auto rows = static_cast<std::size_t>(train_rows(table, split, series));
    std::vector<std::vector<double>> scaled_inputs = series.future;
    for (std::size_t i = 0; i < inputs; ++i) {
      for (double& v : scaled_inputs[i]) v = (v - scales.shift[i]) / scales.scale[i];
    }
    const std::vector<std::span<const double>> views(scaled_inputs.begin(), scaled_inputs.end());
    for (std::size_t c = 0; c < columns; ++c) {
      std::vector<double> y(series.columns[c].begin(),
                            series.columns[c].begin() + static_cast<std::ptrdiff_t>(rows));
      for (double& v : y) v = (v - scaled_series->scales.shift[c]) / scaled_series->scales.scale[c];
      sums[c].add(y, views, table.frequency.season(),
                  series.made_up.empty() ? std::vector<bool>{} : series.made_up[c]);
    }
  }
  std::vector<float> effect;
  for (const EffectSums& column : sums) {
    for (const double e : column.solve()) effect.push_back(static_cast<float>(e));
  }
  const auto put = [&](Parameter& parameter, const auto& values) {
    const std::vector<float> floats(values.begin(), values.end());
    parameter.replace(to(Tensor::from(floats, parameter.shape()), model.device()));
  };
  put(effects->effect, effect);
  put(effects->shift, scales.shift);
  put(effects->scale, scales.scale);
}

}  // namespace ingot::forecast
