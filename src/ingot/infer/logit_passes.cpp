#include "ingot/infer/logit_passes.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ingot {
namespace {

// GCC's and Clang's vectors, which are there on every processor. Four of them side by side keep its units
// busy; the order of the sums is fixed.
constexpr std::size_t kLanes = 4, kAbreast = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = std::int32_t __attribute__((vector_size(16)));

constexpr float kLeast = -87.0F;  // e^d of less is no normal number
constexpr float kLog2E = 1.44269504F;
// ln 2 = kLn2Top + kLn2Rest, where the first has so few bits that its multiples are exact.
constexpr float kLn2Top = 0.693359375F, kLn2Rest = -2.12194440e-4F;
constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: a sum with it has no fraction
constexpr std::array kSeries{1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1.0F, 1.0F};

// e^d = 2^n · e^f with a whole n and |f| ≤ ln 2 / 2. F: float or a vector of it; I: the integer to it.
template <class I, class F, class Convert>
F exponential(const F& d, const Convert& convert) {
  const F whole = (d * kLog2E + kRound) - kRound;
  const F f = (d - whole * kLn2Top) - whole * kLn2Rest;
  F power = f * kSeries[0] + kSeries[1];
  for (std::size_t i = 2; i < kSeries.size(); ++i) power = power * f + kSeries[i];
  return power * std::bit_cast<F>((convert(whole) + 127) * (1 << 23));
}

Floats load(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

bool any(const Ints& mask) {
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(mask);
  return (halves[0] | halves[1]) != 0;
}

Floats exp_weights(const Floats& d) {
  const Ints there = d >= kLeast;
  const Floats weights = exponential<Ints>(there ? d : Floats{},
                                           [](const Floats& x) { return __builtin_convertvector(x, Ints); });
  return std::bit_cast<Floats>(std::bit_cast<Ints>(weights) & there);
}

}  // namespace

float largest_logit(std::span<const float> logits) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::array<Floats, kAbreast> top;
  top.fill(Floats{kNone, kNone, kNone, kNone});
  Ints nan{};
  std::size_t i = 0;
  for (; i + kLanes * kAbreast <= logits.size(); i += kLanes * kAbreast) {
    for (std::size_t v = 0; v < kAbreast; ++v) {
      const Floats x = load(logits.data() + i + v * kLanes);
      nan |= x != x;
      top[v] = x > top[v] ? x : top[v];
    }
  }
  float largest = kNone;
  for (const Floats& each : top)
    for (std::size_t lane = 0; lane < kLanes; ++lane) largest = each[lane] > largest ? each[lane] : largest;
  bool has_nan = any(nan);
  for (; i < logits.size(); ++i) {
    has_nan = has_nan || logits[i] != logits[i];
    largest = logits[i] > largest ? logits[i] : largest;
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : largest;
}

void divide_logits(std::span<float> logits, float divisor) {
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const Floats divided = load(logits.data() + i) / divisor;
    std::memcpy(logits.data() + i, &divided, sizeof divided);
  }
  for (; i < logits.size(); ++i) logits[i] /= divisor;
}

void for_each_between(std::span<const float> logits, float lowest, float below,
                      FunctionRef<void(std::size_t)> f) {
  const auto look = [&](std::size_t i) {
    if (logits[i] >= lowest && logits[i] < below) f(i);
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const Floats x = load(logits.data() + i);
    if (!any((x >= lowest) & (x < below))) continue;
    for (std::size_t lane = 0; lane < kLanes; ++lane) look(i + lane);
  }
  for (; i < logits.size(); ++i) look(i);
}

float exp_weight(float d) {
  if (!(d >= kLeast)) return 0;
  return exponential<std::int32_t>(d, [](float x) { return static_cast<std::int32_t>(x); });
}

double sum_exp_weights(std::span<const float> logits, float top) {
  std::array<double, kLanes * kAbreast> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= logits.size(); i += sums.size()) {
    for (std::size_t v = 0; v < kAbreast; ++v) {
      const Floats values = exp_weights(load(logits.data() + i + v * kLanes) - top);
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        sums[v * kLanes + lane] += static_cast<double>(values[lane]);
    }
  }
  double sum = 0;
  for (const double each : sums) sum += each;
  for (; i < logits.size(); ++i) sum += static_cast<double>(exp_weight(logits[i] - top));
  return sum;
}

}  // namespace ingot
