#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ingot/base/rng.h"
#include "ingot/tune/space.h"

namespace ingot::tune {

/// log of the probability that a standard normal lies in [a, b], a <= b. Exact in both tails.
double log_normal_mass(double a, double b);

/// The age weights of n observations, oldest first: the newest 25 count 1, older ones down to 1/n.
std::vector<double> age_weights(std::size_t n);

/// One parameter's kernels: a truncated Gaussian (its mass per step, for parameters with steps) or a
/// smoothed choice around each observation, and one over the whole range, which is the last.
class ParzenAxis {
 public:
  /// `observations` as in Trial::values.
  ParzenAxis(const Parameter& parameter, std::span<const double> observations, double prior_weight);

  std::size_t kernels() const { return count_; }
  /// Adds each kernel's log density (log mass) at `value` to `sums`.
  void add_log_density(double value, std::span<double> sums);
  /// A draw from one kernel; not yet rounded to the parameter's steps.
  double sample(std::size_t kernel, Rng& rng) const;

  /// Centres and widths, on the parameter's scale; for tests. Empty for choices.
  const std::vector<double>& centres() const { return mu_; }
  const std::vector<double>& widths() const { return sigma_; }

 private:
  void set_widths(std::span<const double> observations);
  void find_equal_kernels();
  std::vector<double> masses(double value) const;

  Parameter parameter_;
  std::size_t count_;
  double low_ = 0, high_ = 1, prior_share_ = 1;  // on the parameter's scale, half a step wider
  std::vector<double> mu_, sigma_, inverse_sigma_, log_scale_;
  std::vector<std::int64_t> choice_;  // of each kernel; the prior's is -1
  // With steps, many kernels are equal and candidates repeat: each pair is computed once.
  std::vector<std::size_t> distinct_, kind_of_;
  std::map<double, std::vector<double>> cache_;
};

/// A density over some parameters of a space: a mixture of products of kernels, one per observation and one
/// prior.
class ParzenEstimator {
 public:
  /// `observations[d]` are the values of parameter `axes[d]`, oldest first, all of one length.
  ParzenEstimator(const SearchSpace& space, const std::vector<std::size_t>& axes,
                  const std::vector<std::vector<double>>& observations, double prior_weight);

  /// Values of the axes, as the parameters allow them.
  std::vector<double> sample(Rng& rng) const;
  double log_density(std::span<const double> values);
  const std::vector<double>& weights() const { return weights_; }
  const ParzenAxis& axis(std::size_t d) const { return kernels_[d]; }

 private:
  const SearchSpace* space_;
  std::vector<std::size_t> axes_;
  std::vector<ParzenAxis> kernels_;
  std::vector<double> weights_, log_weights_, cumulative_, sums_;
};

}  // namespace ingot::tune
