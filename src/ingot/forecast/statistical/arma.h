#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ingot::forecast {

/// Coefficients of a stationary process: x[t] = sum phi[i] x[t-1-i] + e[t] + sum theta[j] e[t-1-j].
struct Arma {
  std::vector<double> phi, theta;
};

/// What a process says of rows: sums over their one-step errors, each over its variance relative to that of
/// e.
struct ArmaFit {
  double squares = 0, logs = 0;  ///< of errors² / variance, and log variance
  std::vector<double> ahead;     ///< means of the rows to come
  bool possible = false;         ///< false: no such process is stationary
};

/// Follows rows of mean 0 with the exact likelihood (innovations algorithm, Brockwell and Davis 1991, 8.7),
/// and continues them for `horizon` rows.
ArmaFit follow(const Arma& arma, std::span<const double> x, std::size_t horizon);

/// The sum of squared errors that takes those before row `from` as 0.
double conditional_squares(const Arma& arma, std::span<const double> x, std::size_t from);

/// Weights of past errors in a row, 1 first, so many; phi may be of a process that is not stationary.
std::vector<double> error_weights(const Arma& arma, std::size_t count);

/// The least modulus of the roots of 1 + c[0] z + c[1] z² + ...; large where c is all zeros.
double least_root(std::span<const double> c);

}  // namespace ingot::forecast
