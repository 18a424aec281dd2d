#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "ingot/forecast/statistical/decompose.h"
#include "ingot/forecast/statistical/local_model.h"
#include "ingot/forecast/statistical/minimize.h"

namespace ingot::forecast {
namespace {

constexpr std::size_t kLongestEtsFit = 2000;  // rows, the last ones
constexpr std::int64_t kLongestEtsSeason = 24;
constexpr double kLeastWeight = 1e-4, kMostWeight = 0.9999, kLeastDamping = 0.8, kMostDamping = 0.98;
constexpr double kImpossible = 1e10;

// One of the models: how errors, trend and season come in.
struct EtsForm {
  bool error_multiplies = false, trend = false, damped = false, seasonal = false, season_multiplies = false;

  std::string name() const {
    return fmt::format("ETS({},{}{},{})", error_multiplies ? "M" : "A", trend ? "A" : "N", damped ? "d" : "",
                       seasonal ? (season_multiplies ? "M" : "A") : "N");
  }
  std::size_t weights() const {
    return 1 + static_cast<std::size_t>(trend) + static_cast<std::size_t>(seasonal) +
           static_cast<std::size_t>(damped);
  }
};

struct EtsState {
  double level = 0, trend = 0;
  std::vector<double> season;  // of the next row, the one after ...
};

// A model with its weights and initial state. As a vector: alpha, beta, gamma, phi, level, trend, and the
// season but for one value, which makes their mean 0 or 1.
struct EtsModel {
  EtsForm form;
  double alpha = 0, beta = 0, gamma = 0, phi = 1;
  EtsState start;

  static EtsModel of(const EtsForm& form, std::size_t season, std::span<const double> p) {
    EtsModel model{.form = form};
    std::size_t i = 0;
    model.alpha = p[i++];
    if (form.trend) model.beta = p[i++];
    if (form.seasonal) model.gamma = p[i++];
    if (form.damped) model.phi = p[i++];
    model.start.level = p[i++];
    if (form.trend) model.start.trend = p[i++];
    if (!form.seasonal) return model;
    model.start.season.assign(p.begin() + static_cast<std::ptrdiff_t>(i), p.end());
    const double sum = std::accumulate(model.start.season.begin(), model.start.season.end(), 0.0);
    model.start.season.insert(model.start.season.begin(),
                              (form.season_multiplies ? static_cast<double>(season) : 0) - sum);
    return model;
  }

  // Inside of the weights' bounds beta may exceed alpha, and gamma 1 - alpha: what is fitted is stable there,
  // too, and statsforecast looks there.
  bool possible() const {
    return !form.season_multiplies || std::ranges::all_of(start.season, [](double s) { return s >= 0; });
  }

  double before_season(const EtsState& s) const { return s.level + (form.trend ? phi * s.trend : 0); }
  double with_season(double value, double season) const {
    if (!form.seasonal) return value;
    return form.season_multiplies ? value * season : value + season;
  }

  // Takes one row into the state, whose season has its phase at `at`.
  void update(EtsState& s, std::size_t at, double row) const {
    const double q = before_season(s);
    double p = row;
    if (form.seasonal) {
      const double season = s.season[at];
      p = form.season_multiplies ? row / season : row - season;
      s.season[at] = season + gamma * ((form.season_multiplies ? row / q : row - q) - season);
    }
    const double level = q + alpha * (p - q);
    if (form.trend) s.trend = phi * s.trend + beta / alpha * (level - s.level - phi * s.trend);
    s.level = level;
  }

  // -2 log likelihood but for a constant; `squares` of the relative or absolute errors.
  double follow(std::span<const double> x, EtsState& s, double& squares) const {
    s = start;
    squares = 0;
    double logs = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t at = form.seasonal ? i % s.season.size() : 0;
      const double expected = with_season(before_season(s), form.seasonal ? s.season[at] : 0);
      const double error = form.error_multiplies ? (x[i] - expected) / expected : x[i] - expected;
      squares += error * error;
      if (form.error_multiplies) logs += std::log(std::abs(expected));
      update(s, at, x[i]);
    }
    return static_cast<double>(x.size()) * std::log(squares) + 2 * logs;
  }
};

struct FittedEts {
  EtsModel model;
  EtsState end;  // after all rows
  double sigma2 = 0, aicc = std::numeric_limits<double>::infinity();
};

std::vector<double> first_state(const EtsForm& form, std::span<const double> x, std::size_t season) {
  std::vector<double> pattern, adjusted(x.begin(), x.end());
  if (form.seasonal) {
    pattern = seasonal_pattern(x, static_cast<std::int64_t>(season), form.season_multiplies);
    for (double& s : pattern) s = form.season_multiplies ? std::max(s, 0.01) : s;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double s = pattern[i % season];
      adjusted[i] = form.season_multiplies ? x[i] / s : x[i] - s;
    }
  }
  const std::size_t rows = std::min(std::max<std::size_t>(10, form.seasonal ? 2 * season : 2), x.size());
  const std::span<const double> head = std::span(adjusted).first(rows);
  const Line line = fitted_line(head);
  std::vector<double> state;
  if (form.trend) {
    state = {line.intercept, line.slope};
  } else {
    state = {std::accumulate(head.begin(), head.end(), 0.0) / static_cast<double>(rows)};
  }
  if (form.seasonal) state.insert(state.end(), pattern.begin() + 1, pattern.end());
  return state;
}

FittedEts fit_ets(const EtsForm& form, std::span<const double> x, std::size_t season, double& most_beta) {
  const double first_alpha =
      kLeastWeight + 0.2 * (kMostWeight - kLeastWeight) / (form.seasonal ? static_cast<double>(season) : 1);
  std::vector<double> p{first_alpha};
  Bounds bounds{{kLeastWeight}, {kMostWeight}};
  const auto add = [&](double first, double low, double high) {
    p.push_back(first);
    bounds.low.push_back(low);
    bounds.high.push_back(high);
  };
  if (form.trend) {  // as in statsforecast a trend may not follow faster than levels began to
    most_beta = std::min(most_beta, first_alpha);
    add(kLeastWeight + 0.1 * (most_beta - kLeastWeight), kLeastWeight, most_beta);
  }
  if (form.seasonal)
    add(kLeastWeight + 0.05 * (1 - first_alpha - kLeastWeight), kLeastWeight, 1 - first_alpha);
  if (form.damped) add(kLeastDamping + 0.99 * (kMostDamping - kLeastDamping), kLeastDamping, kMostDamping);
  constexpr double kAny = std::numeric_limits<double>::max();
  for (const double state : first_state(form, x, season)) add(state, -kAny, kAny);
  const double parameters = static_cast<double>(p.size()) + 1, n = static_cast<double>(x.size());
  FittedEts fitted;
  if (parameters >= n - 1) return fitted;
  EtsState state;
  double squares = 0;
  const auto cost = [&](std::span<const double> at) {
    const EtsModel model = EtsModel::of(form, season, at);
    const double value = model.possible() ? model.follow(x, state, squares) : kImpossible;
    return std::isfinite(value) ? value : kImpossible;
  };
  p = minimize(cost, std::move(p), bounds, 1e-4, 1000);
  fitted.model = EtsModel::of(form, season, p);
  const double lost = cost(p);
  if (lost >= kImpossible) return fitted;
  fitted.model.follow(x, fitted.end, squares);
  fitted.sigma2 = squares / std::max(1.0, n - parameters - 1);
  fitted.aicc =
      lost + 2 * parameters + 2 * parameters * (parameters + 1) / std::max(1e-9, n - parameters - 1);
  return fitted;
}

FittedEts best_ets(std::span<const double> x, std::size_t season) {
  const bool positive = std::ranges::min(x) > 0, seasonal = season > 1 && x.size() >= 2 * season;
  double most_beta = kMostWeight;
  FittedEts best;
  for (const bool error : {false, true}) {
    for (const bool trend : {false, true}) {
      for (const int kind : {0, 1, 2}) {  // no season, one that adds, one that multiplies
        for (const bool damped : {true, false}) {
          const EtsForm form{.error_multiplies = error,
                             .trend = trend,
                             .damped = damped,
                             .seasonal = kind > 0,
                             .season_multiplies = kind == 2};
          const bool sound = (trend || !damped) && (seasonal || kind == 0) &&
                             (positive || (!error && kind < 2)) && (error || kind < 2);
          if (!sound) continue;
          FittedEts fitted = fit_ets(form, x, season, most_beta);
          if (fitted.aicc < best.aicc) best = std::move(fitted);
        }
      }
    }
  }
  return best;
}

// Means and variances of the rows to come (Hyndman et al. 2008, chapter 6). Seasons that multiply scale the
// variance of what they multiply.
LocalForecast continued(const FittedEts& fitted, std::size_t rows, std::int64_t horizon) {
  const EtsModel& m = fitted.model;
  const std::size_t season = fitted.end.season.size();
  LocalForecast f;
  f.form = m.form.name();
  std::vector<double> weights{0}, second;  // c_j, and the mean squares of what errors multiply
  double damping = 0, power = 1, variance = 1;
  for (std::size_t h = 0; h < static_cast<std::size_t>(horizon); ++h) {
    power *= m.phi;
    damping += power;
    const double base = fitted.end.level + (m.form.trend ? damping * fitted.end.trend : 0);
    const double s = season > 0 ? fitted.end.season[(rows + h) % season] : 0;
    const double mean = m.with_season(base, s);
    f.mean.push_back(mean);
    const double centre = m.form.season_multiplies ? base : mean;
    double square = centre * centre;
    for (std::size_t j = 1; j <= h; ++j)
      square += fitted.sigma2 * weights[j] * weights[j] * (m.form.error_multiplies ? second[h - j] : 0);
    second.push_back(square);
    if (m.form.error_multiplies) {
      const double spread = (1 + fitted.sigma2) * square - centre * centre;
      f.deviation.push_back(std::sqrt(spread) * (m.form.season_multiplies ? s : 1));
    } else {
      f.deviation.push_back(std::sqrt(fitted.sigma2 * variance));
    }
    const bool again = m.form.seasonal && !m.form.season_multiplies && (h + 1) % season == 0;
    weights.push_back(m.alpha + m.beta * damping + (again ? m.gamma : 0));
    variance += weights.back() * weights.back();
  }
  return f;
}

}  // namespace

LocalForecast ets_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  const std::span<const double> recent = x.last(std::min(x.size(), kLongestEtsFit));
  const auto [low, high] = std::ranges::minmax(recent);
  const std::size_t m = season <= kLongestEtsSeason ? static_cast<std::size_t>(season) : 1;
  const FittedEts best = low < high ? best_ets(recent, m) : FittedEts{};
  if (std::isfinite(best.aicc)) return continued(best, recent.size(), horizon);
  LocalForecast last = naive_forecast(recent, 1, horizon);
  last.form = low < high ? "naive: too few rows for ETS" : "naive: constant";
  return last;
}

}  // namespace ingot::forecast
