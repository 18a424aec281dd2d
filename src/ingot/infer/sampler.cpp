#include "ingot/infer/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {

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
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;  // ties go to the lower id, as in argmax
  };
  if (options_.temperature == 0) return std::ranges::min_element(candidates_, likelier)->id;
  for (Candidate& c : candidates_) c.logit /= static_cast<float>(options_.temperature);
  keep_top_k();
  keep_likely();
  // What is left is sorted; draw from its softmax, in double so that small probabilities keep their share.
  double total = 0;
  const double top = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += std::exp(c.logit - top);
  double draw = rng_.uniform_double() * total;
  for (const Candidate& c : candidates_) {
    draw -= std::exp(c.logit - top);
    if (draw < 0) return c.id;
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

void Sampler::keep_top_k() {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < candidates_.size()) {
    const auto k = static_cast<std::ptrdiff_t>(options_.top_k);
    std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), likelier);
    candidates_.resize(static_cast<std::size_t>(k));
  }
  std::ranges::sort(candidates_, likelier);
}

void Sampler::keep_likely() {
  double total = 0;
  const double top = candidates_.front().logit;
  for (const Candidate& c : candidates_) total += std::exp(c.logit - top);
  double reached = 0;
  std::size_t keep = 0;
  while (keep < candidates_.size()) {
    const double relative = std::exp(candidates_[keep].logit - top);
    if (keep > 0 && (reached >= options_.top_p * total || relative < options_.min_p)) break;
    reached += relative;
    ++keep;
  }
  candidates_.resize(keep);
}

}  // namespace ingot
