#include "ingot/quant/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot::quant {
namespace {

// Inputs that depend on each other, of different sizes: rows x [n, cols].
Tensor correlated_inputs(std::int64_t n, std::int64_t cols) {
  Rng rng(RngKey{9, 0});
  Tensor x = Tensor::empty({n, cols});
  for (std::int64_t r = 0; r < n; ++r) {
    double shared = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      if (c % 4 == 0) shared = rng.normal();
      const double size = c % 7 == 0 ? 6 : 1;
      x.data<float>()[r * cols + c] = static_cast<float>(size * (shared + 0.4 * rng.normal()));
    }
  }
  return x;
}

Tensor products_of(const Tensor& x) {
  const std::int64_t n = x.dim(0), cols = x.dim(1);
  Tensor h = Tensor::zeros({cols, cols});
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < cols; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        h.data<float>()[i * cols + j] += x.data<float>()[r * cols + i] * x.data<float>()[r * cols + j];
  return h;
}

Tensor random_weight(std::int64_t rows, std::int64_t cols) {
  Rng rng(RngKey{3, 0});
  Tensor w = Tensor::empty({rows, cols});
  for (std::int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = static_cast<float>(rng.normal());
  return w;
}

// Σ |x·(w − rounded)|² over rows and inputs.
double output_error(const Tensor& w, const Tensor& rounded, const Tensor& x) {
  const std::int64_t cols = w.dim(1);
  double sum = 0;
  for (std::int64_t n = 0; n < x.dim(0); ++n) {
    for (std::int64_t r = 0; r < w.dim(0); ++r) {
      double y = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        y += x.data<float>()[n * cols + c] *
             (w.data<float>()[r * cols + c] - rounded.data<float>()[r * cols + c]);
      sum += y * y;
    }
  }
  return sum;
}

// By the definition: after each column its error goes to the rest by the inverse, which then loses that
// column.
std::vector<std::uint8_t> codes_by_definition(const Tensor& w, const Tensor& products,
                                              const GroupMatrix& plain) {
  const auto n = static_cast<std::size_t>(w.dim(1));
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += products.data<float>()[i * n + i] / static_cast<double>(n);
  std::vector<std::vector<double>> h(n, std::vector<double>(2 * n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) h[i][j] = products.data<float>()[i * n + j];
    h[i][i] += 0.01 * mean;
    h[i][n + i] = 1;
  }
  for (std::size_t i = 0; i < n; ++i) {  // Gauss and Jordan
    const double pivot = h[i][i];
    for (double& v : h[i]) v /= pivot;
    for (std::size_t k = 0; k < n; ++k) {
      const double factor = h[k][i];
      if (k == i) continue;
      for (std::size_t j = 0; j < 2 * n; ++j) h[k][j] -= factor * h[i][j];
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return products.data<float>()[a * n + a] > products.data<float>()[b * n + b];
  });
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(w.numel()));
  for (std::size_t r = 0; r < static_cast<std::size_t>(w.dim(0)); ++r) {
    std::vector<std::vector<double>> inverse(n, std::vector<double>(n));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) inverse[i][j] = h[i][n + j];
    std::vector<double> row(w.data<float>() + r * n, w.data<float>() + (r + 1) * n);
    for (const std::size_t i : order) {
      const double scale = plain.scales.data<float>()[r], zero = plain.zeros.data<std::uint8_t>()[r];
      const double code = std::clamp(std::nearbyint(row[i] / scale) + zero, 0.0, 15.0);
      codes[r * n + i] = static_cast<std::uint8_t>(code);
      const double error = (row[i] - (code - zero) * scale) / inverse[i][i];
      const std::vector<double> column = inverse[i];
      for (std::size_t j = 0; j < n; ++j) row[j] -= error * column[j];
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) inverse[a][b] -= column[a] * column[b] / column[i];
    }
  }
  return codes;
}

TEST(Gptq, GivesTheCodesOfItsDefinition) {
  const Tensor w = random_weight(5, 32), products = products_of(correlated_inputs(100, 32));
  const GroupOptions options{.bits = 4, .group = 0, .symmetric = true};
  const std::vector<std::uint8_t> expected =
      codes_by_definition(w, products, GroupMatrix::quantize(w, options));
  EXPECT_EQ(quantize_gptq(w, products, options).codes.to_vector<std::uint8_t>(), expected);
}

TEST(Gptq, LosesLessOfTheOutputsThanPlainRounding) {
  const Tensor w = random_weight(24, 128), x = correlated_inputs(200, 128), products = products_of(x);
  for (const GroupOptions& options :
       {GroupOptions{.bits = 4, .group = 32}, GroupOptions{.bits = 4, .group = 64, .symmetric = false},
        GroupOptions{.bits = 8, .group = 0}}) {
    const double plain = output_error(w, GroupMatrix::quantize(w, options).dequantize(), x);
    EXPECT_LT(output_error(w, quantize_gptq(w, products, options).dequantize(), x), 0.6 * plain);
  }
}

TEST(Gptq, RoundsPlainlyWhereInputsAreIndependent) {
  const Tensor w = random_weight(4, 64);
  Tensor products = Tensor::zeros({64, 64});
  for (std::int64_t i = 0; i < 64; ++i) products.data<float>()[65 * i] = static_cast<float>(i % 5);
  const GroupOptions options{.bits = 4, .group = 32};
  EXPECT_EQ(quantize_gptq(w, products, options).codes.to_vector<std::uint8_t>(),
            GroupMatrix::quantize(w, options).codes.to_vector<std::uint8_t>());
}

TEST(Gptq, RefusesProductsOfAnotherLayerAndThoseThatAreNoNumbers) {
  const Tensor w = random_weight(4, 64);
  EXPECT_THROW(quantize_gptq(w, Tensor::zeros({32, 32}), {.group = 32}), ShapeMismatch);
  Tensor products = Tensor::zeros({64, 64});
  products.data<float>()[7] = NAN;
  EXPECT_NE(test::message_of<NonFinite>([&] {
              quantize_gptq(w, products, {.group = 32}, "mlp.up");
            }).find("mlp.up"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot::quant
