#include "ingot/quant/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/quant/floats.h"

namespace ingot::quant {
namespace {

using Index = std::int64_t;

// A square matrix, row after row.
struct Square {
  explicit Square(Index n_) : n(n_), values(static_cast<std::size_t>(n_ * n_)) {}
  double* row(Index i) { return values.data() + i * n; }
  const double* row(Index i) const { return values.data() + i * n; }
  Index n;
  std::vector<double> values;
};

double dot(const double* a, const double* b, Index n) {
  double sums[4] = {};  // that do not wait for each other
  Index i = 0;
  for (; i + 4 <= n; i += 4)
    for (Index k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

constexpr Index kGrain = 16;  // rows: some 10 µs

// Row i of L, from column `first` up to `end` or to the diagonal; what is left of them, and the rows above,
// are there.
void factor_row(Square& a, Index i, Index first, Index end) {
  double* row = a.row(i);
  for (Index j = first; j < std::min(end, i); ++j) row[j] = (row[j] - dot(row, a.row(j), j)) / a.row(j)[j];
  if (i < end) row[i] = std::sqrt(row[i] - dot(row, row, i));
}

// The lower half of L with L·Lᵀ = a, in place, some columns at a time: threads meet once for each of those.
void factor(Square& a) {
  constexpr Index kBlock = 64;
  for (Index first = 0; first < a.n; first += kBlock) {
    const Index end = std::min(first + kBlock, a.n);
    for (Index i = first; i < end; ++i) factor_row(a, i, first, end);
    parallel_for(a.n - end, kGrain, [&](Index begin, Index stop) {
      for (Index i = end + begin; i < end + stop; ++i) factor_row(a, i, first, end);
    });
  }
}

// The lower half of L⁻¹, transposed: row j has what column j has there, from index j on.
Square inverse_columns(const Square& lower) {
  Square columns(lower.n);
  parallel_for(lower.n, 1, [&](Index begin, Index end) {
    for (Index j = begin; j < end; ++j) {
      double* x = columns.row(j);
      x[j] = 1 / lower.row(j)[j];
      for (Index i = j + 1; i < lower.n; ++i) x[i] = -dot(lower.row(i) + j, x + j, i - j) / lower.row(i)[i];
    }
  });
  return columns;
}

// Columns by their inputs' squares, largest first.
std::vector<Index> by_input(const Tensor& products) {
  const Index n = products.dim(0);
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  const auto* h = products.data<float>();
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return h[a * n + a] > h[b * n + b]; });
  return order;
}

// The upper R with RᵀR = (H + damping)⁻¹, columns in `order`. With both axes reversed H = L·Lᵀ, and then R is
// L⁻¹ reversed.
std::vector<float> error_shares(const Tensor& products, const std::vector<Index>& order) {
  constexpr double kDamping = 0.01;  // of the mean square, as the authors have it
  const Index n = products.dim(0);
  const auto* h = products.data<float>();
  double mean = 0;
  for (Index i = 0; i < n; ++i) mean += static_cast<double>(h[i * n + i]) / static_cast<double>(n);
  Square reversed(n);
  for (Index i = 0; i < n; ++i) {
    const Index from = order[static_cast<std::size_t>(n - 1 - i)];
    for (Index j = 0; j < n; ++j)
      reversed.row(i)[j] = h[from * n + order[static_cast<std::size_t>(n - 1 - j)]];
    reversed.row(i)[i] += mean > 0 ? kDamping * mean : 1;
  }
  factor(reversed);
  const Square columns = inverse_columns(reversed);
  std::vector<float> shares(static_cast<std::size_t>(n * n));
  for (Index i = 0; i < n; ++i)
    for (Index j = i; j < n; ++j)
      shares[static_cast<std::size_t>(i * n + j)] = static_cast<float>(columns.row(n - 1 - j)[n - 1 - i]);
  return shares;
}

// One row, given in `order`: its codes, and what its errors leave of the columns behind.
void round_row(std::vector<float>& row, const std::vector<Index>& order, const std::vector<float>& shares,
               GroupMatrix& m, Index at) {
  const Index n = m.cols, groups = n / m.group;
  const auto top = static_cast<float>((1 << m.bits) - 1);
  for (Index i = 0; i < n; ++i) {
    const Index col = order[static_cast<std::size_t>(i)], g = at * groups + col / m.group;
    const float scale = m.scales.data<float>()[g], zero = m.zeros.data<std::uint8_t>()[g];
    const float value = row[static_cast<std::size_t>(i)];
    const float code = scale > 0 ? std::clamp(std::nearbyint(value / scale) + zero, 0.0F, top) : zero;
    m.codes.data<std::uint8_t>()[at * n + col] = static_cast<std::uint8_t>(code);
    const float* share = shares.data() + i * n;
    const float error = (value - (code - zero) * scale) / share[i];
    for (Index j = i + 1; j < n; ++j) row[static_cast<std::size_t>(j)] -= error * share[j];
  }
}

}  // namespace

GroupMatrix quantize_gptq(const Tensor& w, const Tensor& products, const GroupOptions& options,
                          std::string_view name) {
  GroupMatrix m = GroupMatrix::quantize(w, options, name);
  INGOT_CHECK(products.shape() == (Shape{m.cols, m.cols}) && products.dtype() == DType::f32,
              ShapeMismatch(fmt::format("the Hessian of {}'s inputs", name), {m.cols, m.cols},
                            products.shape().to_vector()));
  const std::vector<float> all = products.to_vector<float>();
  INGOT_CHECK(std::ranges::all_of(all, [](float x) { return std::isfinite(x); }),
              NonFinite(std::string(name), "its inputs over the calibration text are not finite"));
  const Tensor values = as_floats(w, name);
  const std::vector<Index> order = by_input(products);
  const std::vector<float> shares = error_shares(products, order);
  parallel_for(m.rows, 1, [&](Index begin, Index end) {
    std::vector<float> row(static_cast<std::size_t>(m.cols));
    for (Index r = begin; r < end; ++r) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = values.data<float>()[r * m.cols + order[i]];
      round_row(row, order, shares, m, r);
    }
  });
  return m;
}

}  // namespace ingot::quant
