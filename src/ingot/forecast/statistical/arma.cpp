#include "ingot/forecast/statistical/arma.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>

namespace ingot::forecast {
namespace {

using Values = std::vector<double>;

double at(const Values& v, std::size_t i) { return i < v.size() ? v[i] : 0; }

/// Solves a x = b, with pivots; nothing where a is singular.
std::optional<Values> solve(std::vector<Values> a, Values b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    if (!(std::abs(a[pivot][i]) > 1e-12)) return std::nullopt;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      if (factor == 0) continue;
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t c = i + 1; c < n; ++c) b[i] -= a[i][c] * b[c];
    b[i] /= a[i][i];
  }
  return b;
}

/// Autocovariances at lags 0 ... last, by the Yule-Walker equations.
std::optional<Values> autocovariances(const Arma& arma, std::size_t last) {
  const std::size_t p = arma.phi.size(), q = arma.theta.size();
  const Values psi = error_weights(arma, q + 1);
  const auto theta = [&](std::size_t j) { return j == 0 ? 1.0 : arma.theta[j - 1]; };
  const auto right = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t j = lag; j <= q; ++j) sum += theta(j) * psi[j - lag];
    return sum;
  };
  std::vector<Values> a(p + 1, Values(p + 1, 0.0));
  Values b(p + 1);
  for (std::size_t lag = 0; lag <= p; ++lag) {
    a[lag][lag] += 1;
    for (std::size_t i = 1; i <= p; ++i) a[lag][lag > i ? lag - i : i - lag] -= arma.phi[i - 1];
    b[lag] = right(lag);
  }
  auto gamma = solve(std::move(a), std::move(b));
  if (!gamma || !((*gamma)[0] > 0)) return std::nullopt;
  for (std::size_t lag = p + 1; lag <= last; ++lag) {
    double sum = right(lag);
    for (std::size_t i = 1; i <= p; ++i) sum += arma.phi[i - 1] * (*gamma)[lag - i];
    gamma->push_back(sum);
  }
  return gamma;
}

/// Covariances of the rows once what phi says of them is taken off, but for the first ones.
class Covariance {
 public:
  Covariance(const Arma& arma, Values gamma) : arma_(arma), gamma_(std::move(gamma)) {
    first_ = std::max(arma.phi.size(), arma.theta.size());
    const std::size_t q = arma.theta.size();
    for (std::size_t lag = 0; lag <= q; ++lag) {
      double sum = 0;
      for (std::size_t r = 0; r + lag <= q; ++r) sum += theta(r) * theta(r + lag);
      late_.push_back(sum);
    }
  }
  std::size_t first() const { return first_; }
  double operator()(std::size_t i, std::size_t j) const {  // j <= i
    const std::size_t lag = i - j;
    if (i < first_) return gamma_[lag];
    if (j >= first_) return at(late_, lag);
    if (lag > arma_.theta.size()) return 0;
    double sum = gamma_[lag];
    for (std::size_t r = 1; r <= arma_.phi.size(); ++r)
      sum -= arma_.phi[r - 1] * gamma_[r > lag ? r - lag : lag - r];
    return sum;
  }

 private:
  double theta(std::size_t j) const { return j == 0 ? 1.0 : arma_.theta[j - 1]; }
  const Arma& arma_;
  Values gamma_, late_;
  std::size_t first_ = 0;
};

}  // namespace

Values error_weights(const Arma& arma, std::size_t count) {
  Values psi{1};
  for (std::size_t j = 1; j < count; ++j) {
    double sum = at(arma.theta, j - 1);
    for (std::size_t i = 1; i <= std::min(j, arma.phi.size()); ++i) sum += arma.phi[i - 1] * psi[j - i];
    psi.push_back(sum);
  }
  return psi;
}

ArmaFit follow(const Arma& arma, std::span<const double> x, std::size_t horizon) {
  ArmaFit fit;
  const std::size_t p = arma.phi.size(), q = arma.theta.size(), m = std::max(p, q);
  auto gamma = autocovariances(arma, m + q + 1);
  if (!gamma) return fit;
  const Covariance covariance(arma, std::move(*gamma));
  Values rows(x.begin(), x.end()), errors, variances;
  std::vector<Values> weights;  // of the errors before a row, from begins[row] on
  std::vector<std::size_t> begins;
  bool settled = false;  // weights have become theta
  for (std::size_t i = 0; i < x.size() + horizon; ++i) {
    const std::size_t begin = i < m ? 0 : i - std::min(i, q);
    Values w(i - begin);
    double variance = 1;
    if (settled) {
      for (std::size_t j = begin; j < i; ++j) w[j - begin] = arma.theta[i - j - 1];
    } else {
      variance = covariance(i, i);
      for (std::size_t j = begin; j < i; ++j) {
        double sum = covariance(i, j);
        for (std::size_t k = std::max(begin, begins[j]); k < j; ++k)
          sum -= w[k - begin] * weights[j][k - begins[j]] * variances[k];
        w[j - begin] = sum / variances[j];
        variance -= w[j - begin] * sum;
      }
      if (!(variance > 0)) return fit;
      settled = i > 2 * m + q && std::abs(variance - 1) < 1e-9;
    }
    double expected = 0;
    for (std::size_t j = begin; j < std::min(i, x.size()); ++j) expected += w[j - begin] * errors[j];
    if (i >= m)
      for (std::size_t r = 1; r <= p; ++r) expected += arma.phi[r - 1] * rows[i - r];
    if (i < x.size()) {
      errors.push_back(x[i] - expected);
      fit.squares += errors[i] * errors[i] / variance;
      fit.logs += std::log(variance);
    } else {
      rows.push_back(expected);
      fit.ahead.push_back(expected);
    }
    begins.push_back(begin);
    weights.push_back(std::move(w));
    variances.push_back(variance);
  }
  fit.possible = std::isfinite(fit.squares);
  return fit;
}

double conditional_squares(const Arma& arma, std::span<const double> x, std::size_t from) {
  Values errors(x.size(), 0.0);
  double squares = 0;
  for (std::size_t i = from; i < x.size(); ++i) {
    double error = x[i];
    for (std::size_t r = 1; r <= std::min(i, arma.phi.size()); ++r) error -= arma.phi[r - 1] * x[i - r];
    for (std::size_t j = 1; j <= std::min(i - from, arma.theta.size()); ++j)
      error -= arma.theta[j - 1] * errors[i - j];
    errors[i] = error;
    squares += error * error;
  }
  return squares;
}

// All roots at once (Durand and Kerner); a polynomial of ours has a handful.
double least_root(std::span<const double> c) {
  constexpr double kNone = 1e9;
  std::size_t degree = c.size();
  while (degree > 0 && std::abs(c[degree - 1]) <= 1e-8) --degree;
  if (degree == 0) return kNone;
  using Complex = std::complex<double>;
  std::vector<Complex> roots;
  for (std::size_t i = 0; i < degree; ++i)
    roots.push_back(std::pow(Complex(0.4, 0.9), static_cast<double>(i)));
  const auto value = [&](Complex z) {  // over the leading coefficient
    Complex sum = c[degree - 1];
    for (std::size_t i = degree - 1; i-- > 0;) sum = sum * z + c[i];
    return (sum * z + 1.0) / c[degree - 1];
  };
  for (int round = 0; round < 200; ++round) {
    double moved = 0;
    for (std::size_t i = 0; i < degree; ++i) {
      Complex others = 1;
      for (std::size_t j = 0; j < degree; ++j)
        if (j != i) others *= roots[i] - roots[j];
      const Complex step = value(roots[i]) / others;
      roots[i] -= step;
      moved = std::max(moved, std::abs(step));
    }
    if (moved < 1e-10) break;
  }
  double least = kNone;
  for (const Complex& root : roots) least = std::min(least, std::abs(root));
  return least;
}

}  // namespace ingot::forecast
