#include "ingot/kernels/cpu/fft_plan.h"

#include <bit>
#include <cmath>
#include <complex>
#include <map>
#include <mutex>
#include <numbers>

namespace ingot::kernels::cpu {
namespace {

using Complex = std::complex<double>;

// A butterfly of r elements costs r² multiplications, Bluestein's way about three transforms of at least
// twice the length: beyond this it is the cheaper one.
constexpr std::int64_t kLargestRadix = 61;

// e^(−2πi·i/n)
Complex root(std::int64_t i, std::int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(i % n) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

void append(std::vector<float>& to, Complex value) {
  to.push_back(static_cast<float>(value.real()));
  to.push_back(static_cast<float>(value.imag()));
}

// Radices, or nothing where a prime factor is too large. 4 before 2: fewer passes over the data.
std::vector<std::int64_t> factorize(std::int64_t n) {
  std::vector<std::int64_t> radices;
  const auto take = [&](std::int64_t radix) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  };
  take(4);
  for (std::int64_t radix = 2; radix <= kLargestRadix; ++radix) take(radix);
  return n == 1 ? radices : std::vector<std::int64_t>{};
}

void add_stages(FftPlan& plan, const std::vector<std::int64_t>& radices) {
  std::int64_t length = plan.n, inner = 1;
  for (const std::int64_t radix : radices) {
    FftStage stage{radix, length / radix, inner, plan.numbers.size(), 0};
    for (std::int64_t p = 0; p < stage.count; ++p) {
      for (std::int64_t j = 1; j < radix; ++j) append(plan.numbers, root(p * j, length));
    }
    stage.roots = plan.numbers.size();
    for (std::int64_t j = 0; radix > 5 && j < radix; ++j) append(plan.numbers, root(j, radix));
    plan.stages.push_back(stage);
    length /= radix;
    inner *= radix;
  }
}

// The transform of a power of two, in f64.
std::vector<Complex> transform(const std::vector<Complex>& x) {
  const std::size_t n = x.size();
  if (n == 1) return x;
  std::vector<Complex> even, odd;
  for (std::size_t i = 0; i < n; i += 2) {
    even.push_back(x[i]);
    odd.push_back(x[i + 1]);
  }
  even = transform(even);
  odd = transform(odd);
  std::vector<Complex> y(n);
  for (std::size_t k = 0; k < n / 2; ++k) {
    const Complex turned = root(static_cast<std::int64_t>(k), static_cast<std::int64_t>(n)) * odd[k];
    y[k] = even[k] + turned;
    y[k + n / 2] = even[k] - turned;
  }
  return y;
}

// kt = (k² + t² − (k − t)²) / 2 makes the transform a convolution with a chirp (Bluestein 1970).
void add_convolution(FftPlan& plan) {
  const std::int64_t n = plan.n;
  const auto m = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * n - 1)));
  std::vector<Complex> around(static_cast<std::size_t>(m));
  for (std::int64_t t = 0; t < n; ++t) {
    const Complex chirp = root(t * t % (2 * n), 2 * n);
    append(plan.chirp, chirp);
    around[static_cast<std::size_t>(t)] = std::conj(chirp);
    if (t > 0) around[static_cast<std::size_t>(m - t)] = std::conj(chirp);
  }
  for (const Complex value : transform(around)) append(plan.spectrum, value / static_cast<double>(m));
  plan.convolution = std::make_unique<FftPlan>();
  plan.convolution->n = m;
  add_stages(*plan.convolution, factorize(m));
}

std::unique_ptr<FftPlan> make_plan(std::int64_t n) {
  auto plan = std::make_unique<FftPlan>();
  plan->n = n;
  const std::vector<std::int64_t> radices = factorize(n);
  if (n == 1 || !radices.empty()) {
    add_stages(*plan, radices);
  } else {
    add_convolution(*plan);
  }
  return plan;
}

}  // namespace

const FftPlan& fft_plan(std::int64_t n) {
  static std::mutex mutex;
  static std::map<std::int64_t, std::unique_ptr<FftPlan>> plans;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<FftPlan>& plan = plans[n];
  if (!plan) plan = make_plan(n);
  return *plan;
}

}  // namespace ingot::kernels::cpu
