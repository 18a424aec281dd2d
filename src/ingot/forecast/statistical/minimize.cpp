#include "ingot/forecast/statistical/minimize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ingot::forecast {
namespace {

struct Corner {
  std::vector<double> x;
  double value = 0;
};

double spread(const std::vector<Corner>& simplex) {
  double mean = 0, squares = 0;
  for (const Corner& c : simplex) mean += c.value / static_cast<double>(simplex.size());
  for (const Corner& c : simplex) squares += (c.value - mean) * (c.value - mean);
  return std::sqrt(squares / static_cast<double>(simplex.size()));
}

}  // namespace

std::vector<double> minimize(const std::function<double(std::span<const double>)>& f,
                             std::vector<double> start, const Bounds& bounds, double tolerance, int rounds) {
  const std::size_t n = start.size();
  const auto dimensions = static_cast<double>(n);
  const double expansion = 1 + 2 / dimensions, contraction = 0.75 - 1 / (2 * dimensions),
               shrinkage = 1 - 1 / dimensions;
  const auto corner = [&](std::vector<double> x) {
    for (std::size_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], bounds.low[i], bounds.high[i]);
    const double value = f(x);
    return Corner{std::move(x), value};
  };
  std::vector<Corner> simplex{corner(start)};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> x = start;
    x[i] = x[i] == 0 ? 1e-4 : x[i] * 1.05;
    simplex.push_back(corner(std::move(x)));
  }
  for (int round = 0; round < rounds; ++round) {
    std::ranges::stable_sort(simplex, {}, &Corner::value);
    if (spread(simplex) < tolerance) break;
    std::vector<double> centre(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t d = 0; d < n; ++d) centre[d] += simplex[i].x[d] / dimensions;
    }
    Corner& worst = simplex[n];
    const auto along = [&](double t) {  // from the worst corner through the centre
      std::vector<double> x(n);
      for (std::size_t d = 0; d < n; ++d) x[d] = centre[d] + t * (centre[d] - worst.x[d]);
      return corner(std::move(x));
    };
    Corner reflected = along(1);
    if (reflected.value < simplex[0].value) {
      Corner expanded = along(expansion);
      worst = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
      continue;
    }
    if (reflected.value < simplex[n - 1].value) {
      worst = std::move(reflected);
      continue;
    }
    Corner contracted = along(reflected.value < worst.value ? contraction : -contraction);
    if (contracted.value < std::min(reflected.value, worst.value)) {
      worst = std::move(contracted);
      continue;
    }
    for (std::size_t i = 1; i <= n; ++i) {
      for (std::size_t d = 0; d < n; ++d) {
        simplex[i].x[d] = simplex[0].x[d] + shrinkage * (simplex[i].x[d] - simplex[0].x[d]);
      }
      simplex[i] = corner(std::move(simplex[i].x));
    }
  }
  return std::ranges::min_element(simplex, {}, &Corner::value)->x;
}

namespace {

using Point = std::vector<double>;

double dot(const Point& a, const Point& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Point moved(const Point& x, const Point& direction, double step) {
  Point out = x;
  for (std::size_t i = 0; i < x.size(); ++i) out[i] += step * direction[i];
  return out;
}

Point gradient(const std::function<double(std::span<const double>)>& f, const Point& x) {
  constexpr double kStep = 1e-5;
  Point out(x.size()), near = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double step = kStep * std::max(1.0, std::abs(x[i]));
    near[i] = x[i] + step;
    const double above = f(near);
    near[i] = x[i] - step;
    out[i] = (above - f(near)) / (2 * step);
    near[i] = x[i];
  }
  return out;
}

/// An estimate of the Hessian's inverse, which steps and changes of the gradient improve.
class InverseHessian {
 public:
  explicit InverseHessian(std::size_t n) : rows_(n, Point(n, 0.0)) {
    for (std::size_t i = 0; i < n; ++i) rows_[i][i] = 1;
  }
  Point times(const Point& v) const {
    Point out;
    for (const Point& row : rows_) out.push_back(dot(row, v));
    return out;
  }
  void update(const Point& step, const Point& change) {
    const double curvature = dot(step, change);
    if (!(curvature > 1e-12)) return;
    const Point image = times(change);
    const double scale = (1 + dot(change, image) / curvature) / curvature;
    for (std::size_t i = 0; i < step.size(); ++i) {
      for (std::size_t j = 0; j < step.size(); ++j)
        rows_[i][j] += scale * step[i] * step[j] - (image[i] * step[j] + step[i] * image[j]) / curvature;
    }
  }

 private:
  std::vector<Point> rows_;
};

}  // namespace

std::vector<double> descend(const std::function<double(std::span<const double>)>& f,
                            std::vector<double> start, int rounds) {
  constexpr double kFlat = 1e-7, kEnough = 1e-4, kShortest = 1e-10;
  Point x = std::move(start), slope = gradient(f, x);
  double value = f(x);
  InverseHessian inverse(x.size());
  for (int round = 0; round < rounds; ++round) {
    Point direction = inverse.times(slope);
    for (double& d : direction) d = -d;
    double descent = dot(direction, slope);
    if (!(descent < 0)) {  // the estimate went astray: begin again
      inverse = InverseHessian(x.size());
      direction = moved(Point(x.size(), 0.0), slope, -1);
      descent = -dot(slope, slope);
    }
    if (!(descent < -kFlat * kFlat)) break;
    double step = 1;
    Point next = moved(x, direction, step);
    double reached = f(next);
    while (!(reached <= value + kEnough * step * descent) && step > kShortest) {
      step /= 2;
      next = moved(x, direction, step);
      reached = f(next);
    }
    if (step <= kShortest) break;
    const Point next_slope = gradient(f, next);
    inverse.update(moved(next, x, -1), moved(next_slope, slope, -1));
    x = std::move(next);
    slope = next_slope;
    const bool still = value - reached < 1e-12 * (1 + std::abs(value));
    value = reached;
    if (still && dot(slope, slope) < kFlat) break;
  }
  return x;
}

}  // namespace ingot::forecast
