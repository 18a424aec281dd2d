#include "ingot/infer/logit_passes.h"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/infer/logit_passes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Results have the same bits whatever a vector holds: products and sums are rounded one by one (the file is
// compiled without contraction), and a sum has sixteen parts on every processor.
HWY_BEFORE_NAMESPACE();
namespace ingot {
#ifndef INGOT_LOGIT_PASSES_CONSTANTS
#define INGOT_LOGIT_PASSES_CONSTANTS
namespace {
constexpr std::size_t kParts = 16;
constexpr float kLeast = -87.0F;  // e^d of less is not a normal number
constexpr float kLog2E = 1.44269504F;
// ln 2 = kLn2Top + kLn2Rest, where the first has so few bits that its multiples are exact.
constexpr float kLn2Top = 0.693359375F, kLn2Rest = -2.12194440e-4F;
constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: a sum with it has no fraction
constexpr std::array kSeries{1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1.0F, 1.0F};
}  // namespace
#endif
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kParts>;
using V = hn::Vec<D>;

// exp_weight() of each.
V exp_weights(V d) {
  const D tag;
  const hn::Rebind<std::int32_t, D> ints;
  const auto set = [&](float value) { return hn::Set(tag, value); };
  const auto there = hn::Ge(d, set(kLeast));
  d = hn::IfThenElseZero(there, d);
  const V whole = hn::Sub(hn::Add(hn::Mul(d, set(kLog2E)), set(kRound)), set(kRound));
  const V f = hn::Sub(hn::Sub(d, hn::Mul(whole, set(kLn2Top))), hn::Mul(whole, set(kLn2Rest)));
  V power = hn::Add(hn::Mul(f, set(kSeries[0])), set(kSeries[1]));
  for (std::size_t i = 2; i < kSeries.size(); ++i) power = hn::Add(hn::Mul(power, f), set(kSeries[i]));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(ints, whole), hn::Set(ints, 127)));
  return hn::IfThenElseZero(there, hn::Mul(power, hn::BitCast(tag, exponent)));
}

// Each takes what `n` has of whole vectors, and tells how many logits these were.

std::size_t largest_of(const float* logits, std::size_t n, float& largest, bool& has_nan) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  V a = hn::Set(d, largest), b = a;
  auto nan = hn::IsNaN(a);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V x = hn::LoadU(d, logits + i), y = hn::LoadU(d, logits + i + lanes);
    nan = hn::Or(nan, hn::Or(hn::IsNaN(x), hn::IsNaN(y)));
    a = hn::IfThenElse(hn::Gt(x, a), x, a);
    b = hn::IfThenElse(hn::Gt(y, b), y, b);
  }
  largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
  has_nan = !hn::AllFalse(d, nan);
  return i;
}

std::size_t divide(float* logits, std::size_t n, float divisor) {
  const D d;
  const V by = hn::Set(d, divisor);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Div(hn::LoadU(d, logits + i), by), d, logits + i);
  return i;
}

// Adds exp_weight(x − top) to one of the sums each.
std::size_t add_weights(const float* logits, std::size_t n, float top, double* sums) {
  const D d;
  const V most = hn::Set(d, top);
  HWY_ALIGN std::array<float, kParts> weights{};
  std::size_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (std::size_t at = 0; at < kParts; at += hn::Lanes(d))
      hn::Store(exp_weights(hn::Sub(hn::LoadU(d, logits + i + at), most)), d, weights.data() + at);
    for (std::size_t k = 0; k < kParts; ++k) sums[k] += static_cast<double>(weights[k]);
  }
  return i;
}

// The first index from `begin` on where a vector with a logit in [lowest, below) begins, or where there are
// no more whole vectors; `count` is what the vector there holds.
std::size_t next_vector_between(const float* logits, std::size_t begin, std::size_t n, float lowest,
                                float below, std::size_t& count) {
  const D d;
  const V low = hn::Set(d, lowest), high = hn::Set(d, below);
  std::size_t i = begin;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const V x = hn::LoadU(d, logits + i);
    count = hn::Lanes(d);
    if (!hn::AllFalse(d, hn::And(hn::Ge(x, low), hn::Lt(x, high)))) return i;
  }
  count = n - i;
  return i;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot {
namespace {
HWY_EXPORT(largest_of);
HWY_EXPORT(divide);
HWY_EXPORT(add_weights);
HWY_EXPORT(next_vector_between);
}  // namespace

float largest_logit(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  std::size_t i = HWY_DYNAMIC_DISPATCH(largest_of)(logits.data(), logits.size(), largest, has_nan);
  for (; i < logits.size(); ++i) {
    has_nan = has_nan || logits[i] != logits[i];
    largest = logits[i] > largest ? logits[i] : largest;
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : largest;
}

void divide_logits(std::span<float> logits, float divisor) {
  for (std::size_t i = HWY_DYNAMIC_DISPATCH(divide)(logits.data(), logits.size(), divisor); i < logits.size();
       ++i)
    logits[i] /= divisor;
}

void for_each_between(std::span<const float> logits, float lowest, float below,
                      FunctionRef<void(std::size_t)> f) {
  for (std::size_t i = 0, count = 0; i < logits.size(); i += count) {
    i = HWY_DYNAMIC_DISPATCH(next_vector_between)(logits.data(), i, logits.size(), lowest, below, count);
    for (std::size_t at = i; at < i + count; ++at)
      if (logits[at] >= lowest && logits[at] < below) f(at);
  }
}

// e^d = 2^n · e^f with a whole n and |f| ≤ ln 2 / 2.
float exp_weight(float d) {
  if (!(d >= kLeast)) return 0;
  const float whole = (d * kLog2E + kRound) - kRound;
  const float f = (d - whole * kLn2Top) - whole * kLn2Rest;
  float power = f * kSeries[0] + kSeries[1];
  for (std::size_t i = 2; i < kSeries.size(); ++i) power = power * f + kSeries[i];
  return power * std::bit_cast<float>((static_cast<std::int32_t>(whole) + 127) * (1 << 23));
}

double sum_exp_weights(std::span<const float> logits, float top) {
  std::array<double, kParts> sums{};
  std::size_t i = HWY_DYNAMIC_DISPATCH(add_weights)(logits.data(), logits.size(), top, sums.data());
  double sum = 0;
  for (const double each : sums) sum += each;
  for (; i < logits.size(); ++i) sum += static_cast<double>(exp_weight(logits[i] - top));
  return sum;
}

}  // namespace ingot
#endif  // HWY_ONCE
