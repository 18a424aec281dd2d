#include "ingot/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/infer/logit_passes.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

Tensor as_row(std::span<const float> logits) {
  return Tensor::wrap(const_cast<float*>(logits.data()), {1, static_cast<std::int64_t>(logits.size())},
                      DType::f32, kCpu, {});
}

// The largest of logits that can be drawn from.
float checked_largest(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float largest = largest_logit(logits);
  INGOT_CHECK(largest != -kInfinity, NonFinite("logits", "none is finite"));
  if (largest < kInfinity) return largest;
  const auto at = std::ranges::find_if(logits, [](float logit) { return !(logit < kInfinity); });
  throw NonFinite(fmt::format("logit of token {}", at - logits.begin()),
                  fmt::format("is {}: the model's weights or its input are broken",
                              std::isnan(*at) ? "NaN" : "infinite"));
}

}  // namespace

// The first of the largest; a NaN counts as largest.
std::vector<std::int32_t> likeliest_tokens(const Tensor& logits) {
  const NoGrad no_grad;
  const Tensor places = argmax(logits, -1, true);
  const std::vector<float> values = to(gather_within(logits, -1, places), kCpu).to_vector<float>();
  const std::vector<std::int64_t> found = to(places, kCpu).to_vector<std::int64_t>();
  std::vector<std::int32_t> tokens;
  for (std::size_t row = 0; row < found.size(); ++row)
    tokens.push_back(std::isfinite(values[row]) ? static_cast<std::int32_t>(found[row]) : -1);
  return tokens;
}

void SamplingOptions::validate() const {
  INGOT_CHECK(temperature >= 0 && std::isfinite(temperature),
              InvalidConfig("temperature", fmt::format("must be 0 or more, got {}", temperature)));
  INGOT_CHECK(top_k >= 0, InvalidConfig("top_k", fmt::format("must be 0 (off) or more, got {}", top_k)));
  INGOT_CHECK(top_p > 0 && top_p <= 1,
              InvalidConfig("top_p", fmt::format("must be in (0, 1], got {}", top_p)));
  INGOT_CHECK(min_p >= 0 && min_p <= 1,
              InvalidConfig("min_p", fmt::format("must be in [0, 1], got {}", min_p)));
  INGOT_CHECK(
      repetition_penalty > 0 && std::isfinite(repetition_penalty),
      InvalidConfig("repetition_penalty", fmt::format("must be positive, got {}", repetition_penalty)));
}

Sampler::Sampler(const SamplingOptions& options)
    : options_(options), rng_(RngKey{options.seed, 0x73616d706c65}) {
  options_.validate();
}

std::int32_t Sampler::operator()(std::span<const float> logits, std::span<const std::int32_t> history) {
  if (greedy() && !logits.empty()) {
    const std::int32_t token = likeliest_tokens(as_row(logits)).front();
    if (token >= 0) return token;  // else we say below what is wrong
  }
  take(logits, history);
  if (options_.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits_) - logits_.begin());
  const auto [count, total] = kept();
  double draw = rng_.uniform_double() * total;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Candidate& candidate = ranked(rank);
    draw -= weight(candidate);
    // Rounding may leave a little of the draw: then the last one that can be drawn is.
    if (draw < 0 || rank + 1 == count || weight(ranked(rank + 1)) == 0) return candidate.id;
  }
  return ranked(0).id;
}

// Checks the logits, and makes of them what is drawn from.
void Sampler::take(std::span<const float> logits, std::span<const std::int32_t> history) {
  const float largest = checked_largest(logits);
  logits_.assign(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1.0) {
    std::vector<std::int32_t> seen(history.begin(), history.end());
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const std::int32_t id : seen) {
      if (id < 0 || static_cast<std::size_t>(id) >= logits_.size()) continue;
      float& logit = logits_[static_cast<std::size_t>(id)];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }
  const float temperature = options_.temperature > 0 ? static_cast<float>(options_.temperature) : 1.0F;
  divide_logits(logits_, temperature);
  top_ = options_.repetition_penalty == 1.0 ? largest / temperature : largest_logit(logits_);
  candidates_.clear();
  sorted_ = 0;
  lowest_ = std::numeric_limits<float>::infinity();
}

// Ties go to the lower id, as in argmax.
bool Sampler::likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double Sampler::weight(const Candidate& candidate) const {
  return static_cast<double>(exp_weight(candidate.logit - top_));
}

// The token of this rank. Of a vocabulary of 100,000 a draw looks at a few dozen: no more are looked for.
const Sampler::Candidate& Sampler::ranked(std::size_t rank) {
  while (rank >= candidates_.size()) collect_more();
  sort_until(rank + 1);
  return candidates_[rank];
}

// Those that are e^-6 times as likely as the likeliest, then e^-12, e^-24, ... and at last all.
void Sampler::collect_more() {
  constexpr float kWidth = 6, kMost = 100;
  const bool first = candidates_.empty();
  const float depth = first ? kWidth : 2 * (top_ - lowest_);
  const float below = lowest_;
  lowest_ = depth > kMost ? -std::numeric_limits<float>::infinity() : top_ - depth;
  sort_until(candidates_.size());  // all of these come before the new ones
  for_each_between(logits_, lowest_, below, [this](std::size_t i) {
    candidates_.push_back({logits_[i], static_cast<std::int32_t>(i)});
  });
}

void Sampler::sort_until(std::size_t count) {
  while (sorted_ < std::min(count, candidates_.size())) {
    const std::size_t next = std::min(candidates_.size(), std::max<std::size_t>(64, 4 * sorted_));
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(next);
    if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), likelier);
    std::sort(begin, end, likelier);
    sorted_ = next;
  }
}

Sampler::Kept Sampler::kept() {
  Kept all{.count = logits_.size(), .weight = 0};
  if (options_.top_k > 0) all.count = std::min(all.count, static_cast<std::size_t>(options_.top_k));
  if (all.count == logits_.size()) {
    all.weight = sum_exp_weights(logits_, top_);
  } else {
    for (std::size_t rank = 0; rank < all.count; ++rank) all.weight += weight(ranked(rank));
  }
  if (options_.top_p >= 1 && options_.min_p <= 0) return all;
  Kept few{.count = 1, .weight = weight(ranked(0))};
  while (few.count < all.count && few.weight < options_.top_p * all.weight) {
    const double next = weight(ranked(few.count));
    if (next < options_.min_p) break;
    few.weight += next;
    ++few.count;
  }
  return few;
}

}  // namespace ingot
