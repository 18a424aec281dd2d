#include "ingot/forecast/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot::forecast {
namespace {

constexpr std::int64_t kLongestFit =
    4000;  // rows that the weights are fitted on: the last of the training part
constexpr std::int64_t kLongestSeason = 400;  // beyond it a season's initial states are noise
constexpr int kEvaluations = 160;

struct Repeat final : Baseline {
  Repeat(std::span<const double> x_, std::int64_t season_) : x(x_), season(season_) {}
  void forecast(std::int64_t origin, std::span<double> out) const override {
    const std::int64_t first = std::max<std::int64_t>(0, origin - season), period = origin - first;
    for (std::size_t h = 0; h < out.size(); ++h) {
      out[h] = x[static_cast<std::size_t>(first + static_cast<std::int64_t>(h) % period)];
    }
  }
  std::span<const double> x;
  std::int64_t season;
};

// States after each row: level and trend; the season's value that each row left behind.
struct States {
  std::vector<double> level, trend, season;
  double squares = 0;  // of the one-step errors after the first season
  std::int64_t counted = 0;
};

States follow(std::span<const double> x, const EtsParameters& p, std::int64_t m) {
  const auto n = static_cast<std::int64_t>(x.size());
  States s;
  s.level.resize(x.size());
  s.trend.resize(x.size());
  s.season.resize(x.size());
  const std::int64_t start = p.seasonal ? std::min(m, n) : 1;
  double level = 0;
  for (std::int64_t i = 0; i < start; ++i)
    level += x[static_cast<std::size_t>(i)] / static_cast<double>(start);
  double trend = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double v = x[at];
    if (i < start) {
      s.season[at] = p.seasonal ? v - level : 0;
    } else {
      const double season = p.seasonal ? s.season[static_cast<std::size_t>(i - m)] : 0;
      const double predicted = level + p.phi * trend + season;
      const double error = v - predicted;
      s.squares += error * error;
      ++s.counted;
      level += p.phi * trend + p.alpha * error;
      trend = p.trend ? p.phi * trend + p.beta * error : 0;
      s.season[at] = season + p.gamma * error;
    }
    s.level[at] = level;
    s.trend[at] = trend;
  }
  return s;
}

// Weights live in (0, 1) and the like; the simplex moves over all numbers.
double squash(double x, double low, double high) { return low + (high - low) / (1 + std::exp(-x)); }

EtsParameters parameters_of(std::span<const double> x, bool trend, bool seasonal) {
  EtsParameters p{.trend = trend, .seasonal = seasonal};
  std::size_t i = 0;
  p.alpha = squash(x[i++], 1e-4, 0.9999);
  if (trend) {
    p.beta = p.alpha * squash(x[i++], 1e-4, 0.9999);  // beta < alpha, as usual
    p.phi = squash(x[i++], 0.8, 0.98);
  }
  if (seasonal) p.gamma = (1 - p.alpha) * squash(x[i], 1e-4, 0.9999);
  return p;
}

struct Ets final : Baseline {
  Ets(std::span<const double> x, const EtsParameters& p_, std::int64_t season_)
      : p(p_), season(season_), states(follow(x, p_, season_)) {}
  void forecast(std::int64_t origin, std::span<double> out) const override {
    const auto last = static_cast<std::size_t>(origin - 1);
    double trend = 0, damping = p.phi;
    for (std::size_t h = 0; h < out.size(); ++h) {
      if (p.trend) trend += damping * states.trend[last];
      damping *= p.phi;
      out[h] = states.level[last] + trend;
      if (!p.seasonal) continue;
      const std::int64_t at = origin - season + static_cast<std::int64_t>(h) % season;
      if (at >= 0) out[h] += states.season[static_cast<std::size_t>(at)];
    }
  }
  EtsParameters p;
  std::int64_t season;
  States states;
};

}  // namespace

std::unique_ptr<Baseline> naive(std::span<const double> x) { return std::make_unique<Repeat>(x, 1); }

std::unique_ptr<Baseline> seasonal_naive(std::span<const double> x, std::int64_t season) {
  return std::make_unique<Repeat>(x, season);
}

std::unique_ptr<Baseline> ets(std::span<const double> x, std::int64_t fit_rows, std::int64_t season,
                              EtsParameters* chosen) {
  const std::int64_t rows = std::min(fit_rows, kLongestFit);
  const std::span<const double> recent =
      x.subspan(static_cast<std::size_t>(fit_rows - rows), static_cast<std::size_t>(rows));
  const bool can_be_seasonal = season > 1 && season <= kLongestSeason && rows >= 3 * season;
  double best = std::numeric_limits<double>::infinity();
  EtsParameters winner;
  for (const bool seasonal : {false, true}) {
    if (seasonal && !can_be_seasonal) continue;
    for (const bool trend : {false, true}) {
      std::vector<double> start{-1.0};
      if (trend) start.insert(start.end(), {-2.0, 1.0});
      if (seasonal) start.push_back(-2.0);
      const auto cost = [&](std::span<const double> p) {
        const States s = follow(recent, parameters_of(p, trend, seasonal), season);
        return s.squares / static_cast<double>(std::max<std::int64_t>(1, s.counted));
      };
      const std::vector<double> found = nelder_mead(cost, start, 1.0, kEvaluations);
      // AICc of a normal likelihood; the states that were started from the data count as parameters.
      const double n = static_cast<double>(rows);
      const double k = static_cast<double>(found.size()) + 2 + (trend ? 1 : 0) +
                       (seasonal ? static_cast<double>(season) : 0);
      const double score =
          n * std::log(std::max(cost(found), 1e-300)) + 2 * k + 2 * k * (k + 1) / std::max(1.0, n - k - 1);
      if (score < best) {
        best = score;
        winner = parameters_of(found, trend, seasonal);
      }
    }
  }
  if (chosen != nullptr) *chosen = winner;
  return std::make_unique<Ets>(x, winner, season);
}

std::vector<double> nelder_mead(const std::function<double(std::span<const double>)>& f,
                                std::vector<double> start, double step, int evaluations) {
  struct Point {
    std::vector<double> x;
    double value;
  };
  const std::size_t n = start.size();
  std::vector<Point> simplex;
  const auto evaluate = [&](std::vector<double> x) {
    --evaluations;
    const double value = f(x);
    return Point{std::move(x), value};
  };
  simplex.push_back(evaluate(start));
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> corner = start;
    corner[i] += step;
    simplex.push_back(evaluate(std::move(corner)));
  }
  while (evaluations > 0) {
    std::ranges::sort(simplex, {}, &Point::value);
    std::vector<double> centre(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t d = 0; d < n; ++d) centre[d] += simplex[i].x[d] / static_cast<double>(n);
    }
    const auto along = [&](double t) {  // on the line from the worst point through the centre
      std::vector<double> x(n);
      for (std::size_t d = 0; d < n; ++d) x[d] = centre[d] + t * (centre[d] - simplex[n].x[d]);
      return evaluate(std::move(x));
    };
    const Point reflected = along(1);
    if (reflected.value < simplex[0].value) {
      const Point expanded = along(2);
      simplex[n] = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < simplex[n - 1].value) {
      simplex[n] = reflected;
    } else if (const Point contracted = along(reflected.value < simplex[n].value ? 0.5 : -0.5);
               contracted.value < simplex[n].value) {
      simplex[n] = contracted;
    } else {
      for (std::size_t i = 1; i <= n; ++i) {
        for (std::size_t d = 0; d < n; ++d) simplex[i].x[d] = (simplex[i].x[d] + simplex[0].x[d]) / 2;
        simplex[i] = evaluate(std::move(simplex[i].x));
      }
    }
  }
  return std::ranges::min_element(simplex, {}, &Point::value)->x;
}

}  // namespace ingot::forecast
