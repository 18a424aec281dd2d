#include "ingot/models/forecast/multiwavelet.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using Values = std::vector<double>;

// P_n(x), and its derivative where `slope` is given.
double legendre(std::size_t n, double x, double* slope = nullptr) {
  double before = 0, value = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const auto k = static_cast<double>(i);
    const double next = ((2 * k + 1) * x * value - k * before) / (k + 1);
    before = value;
    value = next;
  }
  if (slope != nullptr) *slope = static_cast<double>(n) * (x * value - before) / (x * x - 1);
  return value;
}

// Gauss-Legendre nodes and weights on [0, 1], exact up to degree 2n − 1.
struct Quadrature {
  Values x, weight;
};

Quadrature gauss_legendre(std::size_t n) {
  Quadrature q;
  for (std::size_t i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) / (static_cast<double>(n) + 0.5));
    double slope = 0;
    for (int step = 0; step < 100; ++step) {
      const double change = legendre(n, x, &slope) / slope;
      x -= change;
      if (std::abs(change) < 1e-15) break;
    }
    legendre(n, x, &slope);
    q.x.push_back((1 - x) / 2);
    q.weight.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return q;
}

// A piecewise polynomial of degree below the order, by its values at the nodes of either half of [0, 1].
struct Function {
  Values left, right;
};

double product(const Quadrature& q, const Values& f, const Values& g) {
  double sum = 0;
  for (std::size_t m = 0; m < q.x.size(); ++m) sum += q.weight[m] * f[m] * g[m];
  return sum;
}

// ∫ f·g over [0, 1].
double product(const Quadrature& q, const Function& f, const Function& g) {
  return (product(q, f.left, g.left) + product(q, f.right, g.right)) / 2;
}

void subtract(Function& f, double factor, const Function& g) {
  for (std::size_t m = 0; m < f.left.size(); ++m) {
    f.left[m] -= factor * g.left[m];
    f.right[m] -= factor * g.right[m];
  }
}

// The i-th normalized Legendre polynomial at (x + offset) · scale for each node x.
Values polynomial(const Quadrature& q, std::size_t i, double offset = 0, double scale = 1) {
  Values values;
  for (const double x : q.x) {
    values.push_back(std::sqrt(2 * static_cast<double>(i) + 1) * legendre(i, 2 * scale * (x + offset) - 1));
  }
  return values;
}

// Gram-Schmidt: the polynomials on the left half alone, less what sums and earlier wavelets hold of them.
std::vector<Function> wavelets(const Quadrature& q, const std::vector<Function>& sums) {
  std::vector<Function> found;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Function f{polynomial(q, i), Values(q.x.size(), 0.0)};
    for (double& value : f.left) value *= std::numbers::sqrt2;
    // Twice: once leaves rounding errors of the order of what is left.
    for (int pass = 0; pass < 2; ++pass) {
      for (const Function& g : sums) subtract(f, product(q, f, g), g);
      for (const Function& g : found) subtract(f, product(q, f, g), g);
    }
    const double size = std::sqrt(product(q, f, f));
    for (Values* half : {&f.left, &f.right}) {
      for (double& value : *half) value /= size;
    }
    found.push_back(std::move(f));
  }
  return found;
}

}  // namespace

MultiwaveletFilters legendre_multiwavelets(std::int64_t order) {
  INGOT_CHECK(order >= 1 && order <= 16,
              InvalidConfig("wavelet_order", "must be from 1 to 16, got " + std::to_string(order)));
  const auto k = static_cast<std::size_t>(order);
  const Quadrature q = gauss_legendre(k);
  std::vector<Function> sums;
  std::vector<Values> basis;
  for (std::size_t i = 0; i < k; ++i) {
    sums.push_back({polynomial(q, i, 0, 0.5), polynomial(q, i, 1, 0.5)});
    basis.push_back(polynomial(q, i));
  }
  const std::vector<Function> details = wavelets(q, sums);
  std::vector<float> analysis(4 * k * k), synthesis(4 * k * k);
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const auto filter = [&](const Values& half) {
        const double value = product(q, half, basis[j]) / std::numbers::sqrt2;
        return std::abs(value) < 1e-8 ? 0.0F : static_cast<float>(value);  // 0 but for rounding
      };
      const float h0 = filter(sums[i].left), h1 = filter(sums[i].right);
      const float g0 = filter(details[i].left), g1 = filter(details[i].right);
      analysis[j * 2 * k + i] = g0;
      analysis[j * 2 * k + k + i] = h0;
      analysis[(k + j) * 2 * k + i] = g1;
      analysis[(k + j) * 2 * k + k + i] = h1;
      synthesis[i * 2 * k + j] = h0;
      synthesis[i * 2 * k + k + j] = h1;
      synthesis[(k + i) * 2 * k + j] = g0;
      synthesis[(k + i) * 2 * k + k + j] = g1;
    }
  }
  return {Tensor::from(analysis, {2 * order, 2 * order}), Tensor::from(synthesis, {2 * order, 2 * order})};
}

}  // namespace ingot
