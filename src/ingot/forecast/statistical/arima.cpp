#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "ingot/forecast/statistical/arma.h"
#include "ingot/forecast/statistical/local_model.h"
#include "ingot/forecast/statistical/minimize.h"
#include "ingot/forecast/statistical/stl.h"

namespace ingot::forecast {
namespace {

using Rows = std::vector<double>;

constexpr std::int64_t kLongestArimaSeason = 24;
constexpr std::size_t kLongestArimaFit = 600;  // rows, the last ones
constexpr std::size_t kMostModels = 94;
constexpr double kSeasonalFrom = 0.64;      // strength from which a season is differenced
constexpr double kStationaryBelow = 0.463;  // KPSS statistic at 5 %
constexpr double kLeastRoot = 1.01;
constexpr double kNoFit = 1e10;

/// Orders of a model: its own terms and those of seasons, with a constant or without.
struct Orders {
  int p = 0, q = 0, seasonal_p = 0, seasonal_q = 0;
  bool constant = false;
  bool operator==(const Orders&) const = default;
  int terms() const { return p + q + seasonal_p + seasonal_q + (constant ? 1 : 0); }
};

struct Differences {
  std::size_t season = 1;
  int own = 0, seasonal = 0;
};

Rows differenced(Rows x, std::size_t lag) {
  for (std::size_t i = x.size(); i-- > lag;) x[i] -= x[i - lag];
  x.erase(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(std::min(lag, x.size())));
  return x;
}

bool is_constant(const Rows& x) {
  return std::ranges::all_of(x, [&](double v) { return v == x[0]; });
}

/// Whether the rows wander too far for a level of their own (Kwiatkowski et al. 1992).
bool wanders(const Rows& x) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const auto lags = static_cast<std::size_t>(3 * std::sqrt(n) / 13);
  double sum = 0, sums = 0, variance = 0;
  for (const double v : x) {
    sum += v - mean;
    sums += sum * sum;
    variance += (v - mean) * (v - mean);
  }
  for (std::size_t lag = 1; lag <= lags; ++lag) {
    double covariance = 0;
    for (std::size_t i = lag; i < x.size(); ++i) covariance += (x[i] - mean) * (x[i - lag] - mean);
    variance += 2 * covariance * (1 - static_cast<double>(lag) / static_cast<double>(lags + 1));
  }
  return sums / (n * n) / (variance / n) > kStationaryBelow;
}

/// How often to take differences, and their rows.
Differences differences_of(Rows& x, std::size_t season) {
  Differences d{.season = season};
  if (season > 1 && x.size() > 2 * season && !is_constant(x) &&
      seasonal_strength(x, static_cast<std::int64_t>(season)) > kSeasonalFrom) {
    d.seasonal = 1;
    x = differenced(std::move(x), season);
  }
  Rows tested = x;
  while (d.own < 2 && tested.size() > 2 && !is_constant(x) && wanders(tested)) {
    ++d.own;
    x = differenced(std::move(x), 1);
    tested = differenced(std::move(tested), 1);
    tested.erase(tested.begin());  // as statsforecast does
  }
  return d;
}

/// Partial autocorrelations as coefficients of a stationary process (Durbin and Levinson).
Rows stationary(std::span<const double> partial) {
  Rows phi;
  for (const double free : partial) {
    const double r = std::tanh(free);
    Rows next = phi;
    for (std::size_t j = 0; j < phi.size(); ++j) next[j] -= r * phi[phi.size() - 1 - j];
    next.push_back(r);
    phi = std::move(next);
  }
  return phi;
}

/// The reverse; what is not stationary is drawn to the edge.
Rows partial_of(Rows phi) {
  constexpr double kEdge = 0.99;
  Rows partial(phi.size());
  for (std::size_t k = phi.size(); k-- > 0;) {
    const double r = std::clamp(phi[k], -kEdge, kEdge);
    partial[k] = std::atanh(r);
    Rows lower(phi.begin(), phi.begin() + static_cast<std::ptrdiff_t>(k));
    for (std::size_t j = 0; j < k; ++j) lower[j] = (phi[j] + r * phi[k - 1 - j]) / (1 - r * r);
    phi = std::move(lower);
  }
  return partial;
}

/// (1 + own) (1 + seasonal at multiples of the season) - 1, as coefficients of lags 1, 2, ...
Rows multiplied(std::span<const double> own, std::span<const double> seasonal, std::size_t season) {
  Rows out(own.size() + seasonal.size() * season, 0.0);
  std::ranges::copy(own, out.begin());
  for (std::size_t k = 0; k < seasonal.size(); ++k) {
    const std::size_t lag = (k + 1) * season;
    out[lag - 1] += seasonal[k];
    for (std::size_t i = 0; i < own.size(); ++i) out[lag + i] += seasonal[k] * own[i];
  }
  return out;
}

Rows negated(Rows v) {
  for (double& x : v) x = -x;
  return v;
}

/// A model's parameters: phi, theta, seasonal phi, seasonal theta, mean.
struct Parts {
  Rows phi, theta, seasonal_phi, seasonal_theta;
  double mean = 0;

  static Parts of(const Orders& o, std::span<const double> v, bool free) {
    Parts parts;
    const auto take = [&v](int count) {
      const auto part = v.first(static_cast<std::size_t>(count));
      v = v.subspan(part.size());
      return Rows(part.begin(), part.end());
    };
    parts.phi = take(o.p);
    parts.theta = take(o.q);
    parts.seasonal_phi = take(o.seasonal_p);
    parts.seasonal_theta = take(o.seasonal_q);
    if (o.constant) parts.mean = v[0];
    if (!free) return parts;
    parts.phi = stationary(parts.phi);
    parts.seasonal_phi = stationary(parts.seasonal_phi);
    return parts;
  }
  Rows as_free(const Orders& o) const {
    Rows v = partial_of(phi);
    v.insert(v.end(), theta.begin(), theta.end());
    const Rows seasonal = partial_of(seasonal_phi);
    v.insert(v.end(), seasonal.begin(), seasonal.end());
    v.insert(v.end(), seasonal_theta.begin(), seasonal_theta.end());
    if (o.constant) v.push_back(mean);
    return v;
  }
  Arma arma(std::size_t season) const {
    return {negated(multiplied(negated(phi), negated(seasonal_phi), season)),
            multiplied(theta, seasonal_theta, season)};
  }
  /// The least modulus of all roots.
  double least_root(std::size_t season) const {
    double least = std::numeric_limits<double>::infinity();
    const auto look = [&](const Rows& own, const Rows& seasonal) {
      least = std::min(least, forecast::least_root(own));
      const double root = forecast::least_root(seasonal);
      least = std::min(least, std::pow(root, 1.0 / static_cast<double>(season)));
    };
    look(negated(phi), negated(seasonal_phi));
    look(theta, seasonal_theta);
    return least;
  }
};

struct FittedArima {
  Orders orders;
  Parts parts;
  double sigma2 = 0, aicc = std::numeric_limits<double>::infinity();
};

Rows centred(const Rows& w, double mean) {
  Rows out = w;
  for (double& v : out) v -= mean;
  return out;
}

/// Fits by maximum likelihood, from where conditional least squares lead. `w`: the differenced rows, scaled.
FittedArima fit_arima(const Orders& o, const Rows& w, std::size_t season) {
  FittedArima fitted;
  fitted.orders = o;
  const auto n = static_cast<double>(w.size());
  const double parameters = o.terms() + 1;
  if (n - parameters - 1 <= 0) return fitted;
  Rows start(static_cast<std::size_t>(o.terms()), 0.0);
  if (o.constant) start.back() = std::accumulate(w.begin(), w.end(), 0.0) / n;
  const auto from = static_cast<std::size_t>(o.p) + static_cast<std::size_t>(o.seasonal_p) * season;
  const auto rough = [&](std::span<const double> v) {
    const Parts parts = Parts::of(o, v, false);
    const double squares = conditional_squares(parts.arma(season), centred(w, parts.mean), from);
    return std::isfinite(squares) && squares > 0 ? 0.5 * std::log(squares) : kNoFit;
  };
  const auto cost = [&](std::span<const double> v) {
    const Parts parts = Parts::of(o, v, true);
    const ArmaFit fit = follow(parts.arma(season), centred(w, parts.mean), 0);
    return fit.possible && fit.squares > 0 ? 0.5 * (std::log(fit.squares / n) + fit.logs / n) : kNoFit;
  };
  Rows best = start;
  if (!start.empty()) {
    if (from + 1 < w.size()) start = descend(rough, start, 100);
    const Rows squares = Parts::of(o, start, false).as_free(o);
    best = descend(cost, squares, 100);
    // Few rows are often most likely under a moving average of -1, which forecasts badly: least squares then.
    if (Parts::of(o, best, true).least_root(season) < kLeastRoot) best = squares;
  }
  const double reached = cost(best);
  if (reached >= kNoFit) return fitted;
  fitted.parts = Parts::of(o, best, true);
  if (fitted.parts.least_root(season) < kLeastRoot) return fitted;
  const ArmaFit fit = follow(fitted.parts.arma(season), centred(w, fitted.parts.mean), 0);
  fitted.sigma2 = fit.squares / std::max(1.0, n - parameters + 1);
  fitted.aicc = n * (2 * reached + 1 + std::log(2 * std::numbers::pi)) + 2 * parameters +
                2 * parameters * (parameters + 1) / (n - parameters - 1);
  return fitted;
}

/// The mean alone. AICc cannot weigh a constant on three rows, and without one they would be forecast as 0.
FittedArima mean_of(const Rows& w) {
  FittedArima fitted{.orders = {.constant = true}, .aicc = 0};
  fitted.parts.mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  for (const double v : w) fitted.sigma2 += (v - fitted.parts.mean) * (v - fitted.parts.mean);
  fitted.sigma2 /= static_cast<double>(w.size() - 1);
  return fitted;
}

/// Hyndman and Khandakar's search (2008): from a few models to neighbours that have a lower AICc.
class Search {
 public:
  Search(const Rows& w, std::size_t rows, const Differences& d)
      : w_(w), season_(d.season), constants_(d.own + d.seasonal <= 1) {
    const int third = static_cast<int>(rows / 3), m = static_cast<int>(d.season);
    most_ = {.p = std::min(5, third), .q = std::min(5, third)};
    if (m > 1) {
      most_.seasonal_p = most_.seasonal_q = std::min(2, third / m);
      most_.p = std::min(most_.p, m - 1);
      most_.q = std::min(most_.q, m - 1);
    }
    short_ = rows < 10;
  }

  FittedArima run() {
    const int few = short_ ? 1 : 2, seasonal = short_ ? 0 : 1;
    const Orders& m = most_;
    at_ = {std::min(few, m.p), std::min(few, m.q), std::min(seasonal, m.seasonal_p),
           std::min(seasonal, m.seasonal_q), constants_};
    attempt(at_);
    attempt({.constant = constants_});
    if (m.p > 0 || m.seasonal_p > 0)
      attempt({.p = std::min(1, m.p), .seasonal_p = std::min(1, m.seasonal_p), .constant = constants_});
    if (m.q > 0 || m.seasonal_q > 0)
      attempt({.q = std::min(1, m.q), .seasonal_q = std::min(1, m.seasonal_q), .constant = constants_});
    // As in R and statsforecast the search goes on from there with a constant, whichever of the two is
    // better.
    if (constants_ && attempt({})) at_.constant = true;
    while (step() && tried_.size() < kMostModels) {
    }
    return best_;
  }

 private:
  bool attempt(const Orders& o) {
    if (std::ranges::find(tried_, o) != tried_.end() || tried_.size() >= kMostModels) return false;
    tried_.push_back(o);
    FittedArima fitted = fit_arima(o, w_, season_);
    if (!(fitted.aicc < best_.aicc)) return false;
    best_ = std::move(fitted);
    at_ = o;
    return true;
  }

  // Whether a neighbour of where the search is is better than the best.
  bool step() {
    static constexpr std::array<std::array<int, 2>, 8> kMoves{
        {{-1, 0}, {0, -1}, {1, 0}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}}};
    const Orders at = at_;
    const auto inside = [](int v, int most) { return v >= 0 && v <= most; };
    for (const bool seasonal : {true, false}) {
      for (const auto& [dp, dq] : kMoves) {
        Orders next = at;
        (seasonal ? next.seasonal_p : next.p) += dp;
        (seasonal ? next.seasonal_q : next.q) += dq;
        const bool sound = inside(next.p, most_.p) && inside(next.q, most_.q) &&
                           inside(next.seasonal_p, most_.seasonal_p) &&
                           inside(next.seasonal_q, most_.seasonal_q);
        if (sound && attempt(next)) return true;
      }
    }
    Orders other = at;
    other.constant = !other.constant;
    return constants_ && attempt(other);
  }

  const Rows& w_;
  std::size_t season_;
  bool constants_, short_ = false;
  Orders most_, at_;
  std::vector<Orders> tried_;
  FittedArima best_;
};

/// Takes differences back: sums behind the rows they were taken of.
Rows summed_up(Rows ahead, const Rows& before, std::size_t lag) {
  for (std::size_t h = 0; h < ahead.size(); ++h)
    ahead[h] += h < lag ? before[before.size() - lag + h] : ahead[h - lag];
  return ahead;
}

std::string form_of(const Orders& o, const Differences& d) {
  std::string text = fmt::format("ARIMA({},{},{})", o.p, d.own, o.q);
  if (o.seasonal_p + o.seasonal_q + d.seasonal > 0)
    text += fmt::format("({},{},{})[{}]", o.seasonal_p, d.seasonal, o.seasonal_q, d.season);
  if (!o.constant) return text;
  return text + (d.own + d.seasonal == 0 ? " with mean" : " with drift");
}

LocalForecast continued(const FittedArima& fitted, const Rows& x, const Rows& w, double scale,
                        const Differences& d, std::size_t horizon) {
  Arma arma = fitted.parts.arma(d.season);
  LocalForecast f;
  f.form = form_of(fitted.orders, d);
  Rows ahead = follow(arma, centred(w, fitted.parts.mean), horizon).ahead;
  for (double& v : ahead) v = (v + fitted.parts.mean) * scale;
  const Rows seasonal = d.seasonal > 0 ? differenced(x, d.season) : x;
  Rows own = seasonal;
  std::vector<Rows> levels;  // what was differenced, the last first
  for (int i = 0; i < d.own; ++i) {
    levels.insert(levels.begin(), own);
    own = differenced(std::move(own), 1);
  }
  for (const Rows& level : levels) ahead = summed_up(std::move(ahead), level, 1);
  if (d.seasonal > 0) ahead = summed_up(std::move(ahead), x, d.season);
  f.mean = std::move(ahead);
  Rows lags = negated(std::move(arma.phi));
  for (int i = 0; i < d.own; ++i) lags = multiplied(lags, Rows{-1}, 1);
  if (d.seasonal > 0) lags = multiplied(lags, Rows{-1}, d.season);
  double variance = 0;
  for (const double weight : error_weights({negated(std::move(lags)), arma.theta}, horizon)) {
    variance += weight * weight;
    f.deviation.push_back(scale * std::sqrt(fitted.sigma2 * variance));
  }
  return f;
}

}  // namespace

LocalForecast arima_forecast(std::span<const double> x, std::int64_t season, std::int64_t horizon) {
  const auto recent = x.last(std::min(x.size(), kLongestArimaFit));
  const Rows rows(recent.begin(), recent.end());
  Rows w = rows;
  const Differences d =
      differences_of(w, season <= kLongestArimaSeason ? static_cast<std::size_t>(season) : 1);
  const bool constant = w.empty() || is_constant(w);
  const double mean =
      constant || w.empty() ? 0 : std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  double scale = 0;
  for (const double v : w) scale += (v - mean) * (v - mean);
  scale = constant ? 1 : std::sqrt(scale / static_cast<double>(w.size()));
  FittedArima best;
  if (constant) {  // a line, or a season that repeats: nothing is left to fit
    best.aicc = 0;
    best.orders.constant = d.own + d.seasonal <= 1;
    best.parts.mean = best.orders.constant && !w.empty() ? w[0] : 0;
  } else {
    for (double& v : w) v /= scale;
    best = w.size() <= 4 && d.own + d.seasonal == 0 ? mean_of(w) : Search(w, rows.size(), d).run();
  }
  if (std::isfinite(best.aicc)) return continued(best, rows, w, scale, d, static_cast<std::size_t>(horizon));
  LocalForecast last = naive_forecast(recent, 1, horizon);
  last.form = "naive: too few rows for ARIMA";
  return last;
}

}  // namespace ingot::forecast
