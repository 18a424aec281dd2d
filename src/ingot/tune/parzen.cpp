#include "ingot/tune/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>

namespace ingot::tune {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;
constexpr std::size_t kRecent = 25;   // observations that count in full
constexpr double kMostKernels = 100;  // no kernel is narrower than the range divided by so many

constexpr double kNoTail = 8.3;  // a normal's mass beyond it is below the last digit of 1

double normal_tail(double x) { return 0.5 * std::erfc(x * (std::numbers::sqrt2 / 2)); }

// log of the upper tail; the asymptotic series where erfc has no digits left.
double log_normal_tail(double x) {
  if (x < 30) return std::log(normal_tail(x));
  const double y = 1 / (x * x);
  return -0.5 * x * x - std::log(x) - kHalfLogTwoPi + std::log1p(-y * (1 - 3 * y * (1 - 5 * y)));
}

// The mass of a short interval of width h around z: the density there, with two more terms of its series.
double log_short_mass(double z, double h) {
  const double z2 = z * z, h2 = h * h;
  return std::log(h) - kHalfLogTwoPi - 0.5 * z2 +
         std::log1p(h2 * (z2 - 1) / 24 + h2 * h2 * ((z2 - 6) * z2 + 3) / 1920);
}

}  // namespace

double log_normal_mass(double a, double b) {
  if (a > 0) return log_normal_mass(-b, -a);
  if (b > 0) {
    const double lower = -a < kNoTail ? normal_tail(-a) : 0, upper = b < kNoTail ? normal_tail(b) : 0;
    return lower + upper > 0 ? std::log1p(-lower - upper) : 0;
  }
  // Both in the lower tail: the smaller one is taken off in logarithms.
  const double upper = log_normal_tail(-b), lower = log_normal_tail(-a);
  return upper + std::log(-std::expm1(lower - upper));
}

std::vector<double> age_weights(std::size_t n) {
  std::vector<double> weights(n, 1.0);
  if (n <= kRecent) return weights;
  const std::size_t ramp = n - kRecent;
  const double first = 1 / static_cast<double>(n);
  for (std::size_t i = 0; i < ramp; ++i) {
    const double t = ramp == 1 ? 0 : static_cast<double>(i) / static_cast<double>(ramp - 1);
    weights[i] = first + t * (1 - first);
  }
  return weights;
}

ParzenAxis::ParzenAxis(const Parameter& parameter, std::span<const double> observations, double prior_weight)
    : parameter_(parameter), count_(observations.size() + 1) {
  prior_share_ = prior_weight / static_cast<double>(count_);
  if (parameter.kind == ParameterKind::categorical) {
    for (const double value : observations) choice_.push_back(static_cast<std::int64_t>(value));
    choice_.push_back(-1);
    return;
  }
  std::tie(low_, high_) = parameter.range();
  for (const double value : observations) mu_.push_back(parameter.log ? std::log(value) : value);
  set_widths(std::vector<double>(mu_));
  mu_.push_back(std::midpoint(low_, high_));
  sigma_.push_back(high_ - low_);
  const bool steps = parameter.spacing() > 0;
  for (std::size_t k = 0; k < count_; ++k) {
    inverse_sigma_.push_back(1 / sigma_[k]);
    const double mass = log_normal_mass((low_ - mu_[k]) / sigma_[k], (high_ - mu_[k]) / sigma_[k]);
    log_scale_.push_back(steps ? -mass : -mass - std::log(sigma_[k]) - kHalfLogTwoPi);
  }
  if (steps) find_equal_kernels();
}

// Each kernel reaches to the farther of its neighbours; the outermost to the only one (the border, alone).
void ParzenAxis::set_widths(std::span<const double> x) {
  const std::size_t n = x.size();
  std::vector<std::pair<double, std::size_t>> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = {x[i], i};
  std::ranges::sort(order);  // of equal values the first comes first
  sigma_.resize(n);
  const double widest = high_ - low_;
  const double narrowest = widest / std::min(kMostKernels, 2.0 + static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double here = order[i].first;
    double left = here - (i == 0 ? low_ : order[i - 1].first);
    double right = (i + 1 == n ? high_ : order[i + 1].first) - here;
    if (n > 1 && i == 0) left = right;
    if (n > 1 && i + 1 == n) right = left;
    sigma_[order[i].second] = std::clamp(std::max(left, right), narrowest, widest);
  }
}

void ParzenAxis::find_equal_kernels() {
  std::vector<std::size_t> order(count_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t k) { return std::pair(mu_[k], sigma_[k]); };
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  kind_of_.resize(count_);
  for (const std::size_t k : order) {
    if (distinct_.empty() || key(distinct_.back()) != key(k)) distinct_.push_back(k);
    kind_of_[k] = distinct_.size() - 1;
  }
}

std::vector<double> ParzenAxis::masses(double value) const {
  const double half = parameter_.spacing() / 2;
  const double left = parameter_.log ? std::log(value - half) : value - half;
  const double right = parameter_.log ? std::log(value + half) : value + half;
  std::vector<double> result;
  result.reserve(distinct_.size());
  for (const std::size_t k : distinct_) {
    const double a = (left - mu_[k]) * inverse_sigma_[k], b = (right - mu_[k]) * inverse_sigma_[k];
    // The series is exact to 1e-9 up to here, and several times as quick.
    const bool is_short = b - a < 0.1;
    result.push_back(log_scale_[k] +
                     (is_short ? log_short_mass(0.5 * (a + b), b - a) : log_normal_mass(a, b)));
  }
  return result;
}

void ParzenAxis::add_log_density(double value, std::span<double> sums) {
  if (parameter_.kind == ParameterKind::categorical) {
    const auto choice = static_cast<std::int64_t>(value);
    const auto choices = static_cast<double>(parameter_.choices.size());
    const double total = std::log1p(choices * prior_share_);
    const double hit = std::log1p(prior_share_) - total, miss = std::log(prior_share_) - total;
    for (std::size_t k = 0; k + 1 < count_; ++k) sums[k] += choice_[k] == choice ? hit : miss;
    sums[count_ - 1] -= std::log(choices);
    return;
  }
  if (!distinct_.empty()) {
    auto found = cache_.find(value);
    if (found == cache_.end()) found = cache_.emplace(value, masses(value)).first;
    for (std::size_t k = 0; k < count_; ++k) sums[k] += found->second[kind_of_[k]];
    return;
  }
  const double x = parameter_.log ? std::log(value) : value;
  for (std::size_t k = 0; k < count_; ++k) {
    const double z = (x - mu_[k]) * inverse_sigma_[k];
    sums[k] += log_scale_[k] - 0.5 * z * z;
  }
}

double ParzenAxis::sample(std::size_t kernel, Rng& rng) const {
  if (parameter_.kind == ParameterKind::categorical) {
    const auto choices = static_cast<double>(parameter_.choices.size());
    const double u = rng.uniform_double() * (1 + choices * prior_share_);
    if (choice_[kernel] >= 0 && u < 1) return static_cast<double>(choice_[kernel]);
    return static_cast<double>(rng.below(parameter_.choices.size()));
  }
  // The centre lies inside and no kernel is wider than the range: at least every third draw is accepted.
  for (;;) {
    const double x = mu_[kernel] + sigma_[kernel] * rng.normal();
    if (x >= low_ && x <= high_) return parameter_.log ? std::exp(x) : x;
  }
}

ParzenEstimator::ParzenEstimator(const SearchSpace& space, const std::vector<std::size_t>& axes,
                                 const std::vector<std::vector<double>>& observations, double prior_weight)
    : space_(&space), axes_(axes) {
  for (std::size_t d = 0; d < axes.size(); ++d) {
    kernels_.emplace_back(space.parameters[axes[d]], observations[d], prior_weight);
  }
  weights_ = age_weights(observations.front().size());
  weights_.push_back(weights_.empty() ? 1.0 : prior_weight);
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  double sum = 0;
  for (double& weight : weights_) {
    weight /= total;
    log_weights_.push_back(std::log(weight));
    cumulative_.push_back(sum += weight);
  }
}

std::vector<double> ParzenEstimator::sample(Rng& rng) const {
  const auto chosen = std::ranges::upper_bound(cumulative_, rng.uniform_double() * cumulative_.back());
  const auto kernel = std::min(static_cast<std::size_t>(chosen - cumulative_.begin()), weights_.size() - 1);
  std::vector<double> values;
  values.reserve(axes_.size());
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    values.push_back(space_->nearest_allowed(axes_[d], kernels_[d].sample(kernel, rng)));
  }
  return values;
}

double ParzenEstimator::log_density(std::span<const double> values) {
  sums_ = log_weights_;
  for (std::size_t d = 0; d < axes_.size(); ++d) kernels_[d].add_log_density(values[d], sums_);
  const double largest = *std::ranges::max_element(sums_);
  // Most kernels are far away: below e^-40 of the nearest they change no digit.
  double sum = 0;
  for (const double term : sums_) {
    if (term > largest - 40) sum += std::exp(term - largest);
  }
  return largest + std::log(sum);
}

}  // namespace ingot::tune
