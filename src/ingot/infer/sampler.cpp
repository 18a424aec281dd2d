#include "ingot/infer/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

// The first of the largest; a NaN counts as largest.
std::int32_t greedy(std::span<const float> logits) {
  const NoGrad no_grad;
  const Tensor row = Tensor::wrap(const_cast<float*>(logits.data()),
                                  {static_cast<std::int64_t>(logits.size())}, DType::f32, kCpu, {});
  return static_cast<std::int32_t>(argmax(row).item());
}

}  // namespace

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
  if (options_.temperature == 0 && options_.repetition_penalty == 1.0 && !logits.empty()) {
    const std::int32_t token = greedy(logits);
    if (std::isfinite(logits[static_cast<std::size_t>(token)]))
      return token;  // else we say below what is wrong
  }
  candidates_.resize(logits.size());
  bool any_finite = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    INGOT_CHECK(!std::isnan(logits[i]), NonFinite(fmt::format("logit of token {}", i),
                                                  "is NaN: the model's weights or "
                                                  "its input are broken"));
    any_finite = any_finite || std::isfinite(logits[i]);
    candidates_[i] = {logits[i], static_cast<std::int32_t>(i)};
  }
  INGOT_CHECK(any_finite, NonFinite("logits", "none is finite"));
  penalise_repetition(history);
  sorted_ = 0;
  if (options_.temperature == 0) return std::ranges::min_element(candidates_, likelier)->id;
  for (Candidate& c : candidates_) c.logit /= static_cast<float>(options_.temperature);
  keep_top_k();
  keep_likely();
  // Draw from the softmax of what is left, in double so that small probabilities keep their share.
  sort_until(1);
  double total = 0;
  const double top = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += std::exp(c.logit - top);
  double draw = rng_.uniform_double() * total;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    sort_until(i + 1);
    draw -= std::exp(candidates_[i].logit - top);
    if (draw < 0) return candidates_[i].id;
  }
  return candidates_.back().id;
}

void Sampler::penalise_repetition(std::span<const std::int32_t> history) {
  if (options_.repetition_penalty == 1.0) return;
  std::vector<std::int32_t> seen(history.begin(), history.end());
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (const std::int32_t id : seen) {
    if (id < 0 || static_cast<std::size_t>(id) >= candidates_.size()) continue;
    float& logit = candidates_[static_cast<std::size_t>(id)].logit;
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

// Ties go to the lower id, as in argmax.
bool Sampler::likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Of a vocabulary of 100,000 a draw looks at a few dozen: only those are put in order.
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

void Sampler::keep_top_k() {
  if (options_.top_k <= 0 || static_cast<std::size_t>(options_.top_k) >= candidates_.size()) return;
  const auto k = static_cast<std::ptrdiff_t>(options_.top_k);
  std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), likelier);
  candidates_.resize(static_cast<std::size_t>(k));
}

void Sampler::keep_likely() {
  if (options_.top_p >= 1 && options_.min_p <= 0) return;
  sort_until(1);
  double total = 0;
  const double top = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += std::exp(c.logit - top);
  double reached = 0;
  std::size_t keep = 0;
  while (keep < candidates_.size()) {
    sort_until(keep + 1);
    const double relative = std::exp(candidates_[keep].logit - top);
    if (keep > 0 && (reached >= options_.top_p * total || relative < options_.min_p)) break;
    reached += relative;
    ++keep;
  }
  candidates_.resize(keep);
  sorted_ = std::min(sorted_, keep);
}

}  // namespace ingot
