#include "ingot/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"

namespace ingot {
namespace {

constexpr std::int64_t kGrain = 1024;  // blocks of four values, about 60 ns each

void check_finite(const char* key, double value) {
  INGOT_CHECK(std::isfinite(value), InvalidConfig(key, fmt::format("must be finite, got {}", value)));
}

void check_scale(const char* key, double value) {
  INGOT_CHECK(std::isfinite(value) && value >= 0,
              InvalidConfig(key, fmt::format("must be finite and not negative, got {}", value)));
}

void check_interval(const char* key, double low, double high) {
  INGOT_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high,
              InvalidConfig(key, fmt::format("[{}, {}) is not a finite interval", low, high)));
}

struct Validator {
  void operator()(const init::Constant& c) const { check_finite("init.value", c.value); }
  void operator()(const init::Normal& n) const {
    check_finite("init.mean", n.mean);
    check_scale("init.std", n.std);
  }
  void operator()(const init::Uniform& u) const { check_interval("init.low", u.low, u.high); }
  void operator()(const init::TruncatedNormal& t) const {
    check_finite("init.mean", t.mean);
    check_scale("init.std", t.std);
    INGOT_CHECK(t.std > 0, InvalidConfig("init.std", "a truncated normal needs a positive one"));
    check_interval("init.low", t.low, t.high);
    // Mass below 1e-12 has no digits left in u; a limit on the wrong side of the mean by 7 std is a mistake.
    INGOT_CHECK(t.low < t.mean + 7 * t.std && t.high > t.mean - 7 * t.std,
                InvalidConfig("init.low", fmt::format("[{}, {}] holds next to nothing of a normal({}, {})",
                                                      t.low, t.high, t.mean, t.std)));
  }
  void operator()(const init::Xavier& x) const { check_scale("init.gain", x.gain); }
  void operator()(const init::Kaiming& k) const { check_scale("init.gain", k.gain); }
  void operator()(const init::Orthogonal& o) const { check_scale("init.gain", o.gain); }
};

// Calls value(words) -> four floats for each Philox block and writes them; element i depends on i alone.
template <class F>
void fill_blocks(const Tensor& tensor, RngKey key, F&& four_values) {
  dispatch_float(tensor.dtype(), "fill_", [&]<class T>() {
    T* to = tensor.data<T>();
    const std::int64_t n = tensor.numel();
    parallel_for((n + 3) / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::array<float, 4> values = four_values(key.block(static_cast<std::uint64_t>(block)));
        for (std::int64_t i = 4 * block; i < std::min(4 * block + 4, n); ++i) {
          to[i] = static_cast<T>(values[static_cast<std::size_t>(i - 4 * block)]);
        }
      }
    });
  });
}

void fill_uniform(const Tensor& tensor, double low, double high, RngKey key) {
  const auto base = static_cast<float>(low), range = static_cast<float>(high - low);
  fill_blocks(tensor, key, [&](const std::array<std::uint32_t, 4>& words) {
    std::array<float, 4> values{};
    for (std::size_t i = 0; i < 4; ++i) values[i] = base + range * uniform_from_bits(words[i]);
    return values;
  });
}

// Box-Muller: two words make two values. The half keeps u above 0; the largest value is 6.7 std.
std::pair<float, float> normal_pair(std::uint32_t a, std::uint32_t b) {
  const float u = (static_cast<float>(a) + 0.5F) * 0x1.0p-32F;
  const float radius = std::sqrt(-2.0F * std::log(u));
  const float angle = 2.0F * std::numbers::pi_v<float> * uniform_from_bits(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void fill_normal(const Tensor& tensor, double mean, double std_, RngKey key) {
  const auto center = static_cast<float>(mean), scale = static_cast<float>(std_);
  fill_blocks(tensor, key, [&](const std::array<std::uint32_t, 4>& words) {
    const auto [x0, x1] = normal_pair(words[0], words[1]);
    const auto [x2, x3] = normal_pair(words[2], words[3]);
    return std::array{center + scale * x0, center + scale * x1, center + scale * x2, center + scale * x3};
  });
}

// The inverse of erf: a start within 2e-3 (Winitzki 2008), then two of Newton's steps, quadratic.
double erf_inv(double y) {
  const double a = 0.147, log_term = std::log1p(-y * y);
  const double t = 2 / (std::numbers::pi * a) + log_term / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - log_term / a) - t), y);
  for (int step = 0; step < 3; ++step) {
    x -= (std::erf(x) - y) * std::sqrt(std::numbers::pi) / 2 * std::exp(x * x);
  }
  return x;
}

void fill_truncated_normal(const Tensor& tensor, const init::TruncatedNormal& t, RngKey key) {
  const double scale = t.std * std::numbers::sqrt2;
  const double low = std::erf((t.low - t.mean) / scale), high = std::erf((t.high - t.mean) / scale);
  fill_blocks(tensor, key, [&](const std::array<std::uint32_t, 4>& words) {
    std::array<float, 4> values{};
    for (std::size_t i = 0; i < 4; ++i) {
      const double u = (static_cast<double>(words[i]) + 0.5) * 0x1.0p-32;
      const double x = t.mean + scale * erf_inv(low + (high - low) * u);
      values[i] = static_cast<float>(std::clamp(x, t.low, t.high));
    }
    return values;
  });
}

// Rows made orthonormal by Gram-Schmidt, each projected twice ("twice is enough", Giraud et al. 2005). This
// is the Q of a QR decomposition whose R has a positive diagonal, hence uniform over the orthogonal matrices.
void orthonormalize_rows(std::vector<double>& a, std::int64_t rows, std::int64_t columns) {
  const auto row = [&](std::int64_t i) { return a.data() + i * columns; };
  const auto dot = [&](const double* x, const double* y) {
    std::array<double, 4> sums{};
    std::int64_t i = 0;
    for (; i + 4 <= columns; i += 4) {
      for (std::size_t k = 0; k < 4; ++k)
        sums[k] += x[i + static_cast<std::int64_t>(k)] * y[i + static_cast<std::int64_t>(k)];
    }
    for (; i < columns; ++i) sums[0] += x[i] * y[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    double* x = row(i);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double* y = row(j);
        const double projection = dot(x, y);
        for (std::int64_t k = 0; k < columns; ++k) x[k] -= projection * y[k];
      }
    }
    const double scale = 1 / std::sqrt(dot(x, x));
    for (std::int64_t k = 0; k < columns; ++k) x[k] *= scale;
  }
}

void fill_orthogonal(const Tensor& tensor, double gain, RngKey key) {
  const Shape shape = tensor.shape();
  INGOT_CHECK(shape.rank() >= 2,
              DimensionMismatch("orthogonal initialization needs two axes or more, got " + to_string(shape)));
  if (shape.numel() == 0) return;
  const std::int64_t rows = shape[0], columns = shape.numel() / shape[0];
  const bool wide = rows <= columns;
  const std::int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  Rng rng(key);
  std::vector<double> a(static_cast<std::size_t>(m * n));
  for (double& value : a) value = rng.normal();
  orthonormalize_rows(a, m, n);
  dispatch_float(tensor.dtype(), "fill_", [&]<class T>() {
    T* to = tensor.data<T>();
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double value = gain * a[static_cast<std::size_t>(wide ? r * n + c : c * n + r)];
        if constexpr (std::is_same_v<T, double>) {
          to[r * columns + c] = value;
        } else {
          to[r * columns + c] = static_cast<T>(static_cast<float>(value));
        }
      }
    }
  });
}

void fill_scaled(const Tensor& tensor, init::Distribution distribution, double std_, RngKey key) {
  if (distribution == init::Distribution::normal) {
    fill_normal(tensor, 0, std_, key);
  } else {
    const double bound = std::sqrt(3.0) * std_;
    fill_uniform(tensor, -bound, bound, key);
  }
}

struct Filler {
  const Tensor& tensor;
  RngKey key;

  void operator()(const init::Constant& c) const {
    dispatch_float(tensor.dtype(), "fill_", [&]<class T>() {
      std::fill_n(tensor.data<T>(), tensor.numel(), static_cast<T>(static_cast<float>(c.value)));
    });
  }
  void operator()(const init::Normal& n) const { fill_normal(tensor, n.mean, n.std, key); }
  void operator()(const init::Uniform& u) const { fill_uniform(tensor, u.low, u.high, key); }
  void operator()(const init::TruncatedNormal& t) const { fill_truncated_normal(tensor, t, key); }
  void operator()(const init::Xavier& x) const {
    const Fans f = fans(tensor.shape());
    fill_scaled(tensor, x.distribution, x.gain * std::sqrt(2.0 / static_cast<double>(f.in + f.out)), key);
  }
  void operator()(const init::Kaiming& k) const {
    const Fans f = fans(tensor.shape());
    const std::int64_t fan = k.mode == init::FanMode::fan_in ? f.in : f.out;
    fill_scaled(tensor, k.distribution, k.gain / std::sqrt(static_cast<double>(fan)), key);
  }
  void operator()(const init::Orthogonal& o) const { fill_orthogonal(tensor, o.gain, key); }
};

}  // namespace

init::Uniform init::fan_in_uniform(std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return {-bound, bound};
}

double init::gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  return 1;
}

void validate(const Init& init) { std::visit(Validator{}, init); }

Fans fans(const Shape& shape) {
  INGOT_CHECK(
      shape.rank() >= 2,
      DimensionMismatch("fan-in and fan-out need a weight of two axes or more ([out, in, ...]), got " +
                        to_string(shape)));
  std::int64_t receptive = 1;
  for (int i = 2; i < shape.rank(); ++i) receptive *= shape[i];
  return {shape[1] * receptive, shape[0] * receptive};
}

void fill_(const Tensor& tensor, const Init& init, RngKey key) {
  validate(init);
  INGOT_CHECK(tensor.defined() && tensor.is_contiguous(),
              KernelError("fill_", "only contiguous tensors can be initialized"));
  std::visit(Filler{tensor, key}, init);
  tensor.storage()->bump_version();
}

}  // namespace ingot
