#include "ingot/infer/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/grammar/token_set.h"
#include "ingot/infer/logit_passes.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

// vLLM's bound, too: logits divided by less than that overflow, or are all the same to a draw.
constexpr double kGreedyBelow = 1e-5;

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

// Standard deviation of the finite logits.
double deviation(std::span<const float> logits) {
  double sum = 0, squares = 0, count = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) continue;
    sum += static_cast<double>(logit);
    ++count;
  }
  for (const float logit : logits) {
    const double apart = static_cast<double>(logit) - sum / count;
    if (std::isfinite(logit)) squares += apart * apart;
  }
  return std::sqrt(squares / count);
}

}  // namespace

// The first of the largest; a NaN counts as largest.
std::vector<std::int32_t> argmax_tokens(const Tensor& logits) {
  const NoGrad no_grad;
  const Tensor indices = argmax(logits, -1, true);
  const std::vector<float> values = to(gather_within(logits, -1, indices), kCpu).to_vector<float>();
  const std::vector<std::int64_t> found = to(indices, kCpu).to_vector<std::int64_t>();
  std::vector<std::int32_t> tokens;
  for (std::size_t row = 0; row < found.size(); ++row)
    tokens.push_back(std::isfinite(values[row]) ? static_cast<std::int32_t>(found[row]) : -1);
  return tokens;
}

void SamplingOptions::validate() const {
  const auto check = [](bool good, const char* option, const char* range, auto value) {
    INGOT_CHECK(good, InvalidConfig(option, fmt::format("must be {}, got {}", range, value)));
  };
  const auto share = [](double p) { return p >= 0 && p <= 1; };
  check(temperature >= 0 && std::isfinite(temperature), "temperature", "0 or more", temperature);
  check(top_k >= 0, "top_k", "0 (off) or more", top_k);
  check(top_p > 0 && top_p <= 1, "top_p", "in (0, 1]", top_p);
  check(share(min_p), "min_p", "in [0, 1]", min_p);
  check(typical_p > 0 && typical_p <= 1, "typical_p", "in (0, 1]", typical_p);
  check(top_n_sigma >= 0 && std::isfinite(top_n_sigma), "top_n_sigma", "0 (off) or more", top_n_sigma);
  check(share(xtc_probability), "xtc_probability", "in [0, 1]", xtc_probability);
  check(share(xtc_threshold), "xtc_threshold", "in [0, 1]", xtc_threshold);
  check(min_keep >= 0, "min_keep", "0 or more", min_keep);
  check(dynatemp_range >= 0 && std::isfinite(dynatemp_range), "dynatemp_range", "0 (off) or more",
        dynatemp_range);
  check(dynatemp_exponent > 0 && std::isfinite(dynatemp_exponent), "dynatemp_exponent", "positive",
        dynatemp_exponent);
  check(mirostat == 0 || mirostat == 2, "mirostat", "0 (off) or 2", mirostat);
  check(mirostat_tau > 0 && std::isfinite(mirostat_tau), "mirostat_tau", "positive", mirostat_tau);
  check(mirostat_eta > 0 && std::isfinite(mirostat_eta), "mirostat_eta", "positive", mirostat_eta);
  check(repetition_penalty > 0 && std::isfinite(repetition_penalty), "repetition_penalty", "positive",
        repetition_penalty);
  check(std::isfinite(presence_penalty), "presence_penalty", "a number", presence_penalty);
  check(std::isfinite(frequency_penalty), "frequency_penalty", "a number", frequency_penalty);
  check(repeat_last_n >= -1, "repeat_last_n", "-1 (all) or more", repeat_last_n);
  check(dry.multiplier >= 0 && std::isfinite(dry.multiplier), "dry_multiplier", "0 (off) or more",
        dry.multiplier);
  check(dry.base >= 1 && std::isfinite(dry.base), "dry_base", "1 or more", dry.base);
  check(dry.allowed_length >= 0, "dry_allowed_length", "0 or more", dry.allowed_length);
  check(dry.last_n >= -1, "dry_penalty_last_n", "-1 (all) or more", dry.last_n);
  check(no_repeat_ngram_size >= 0, "no_repeat_ngram_size", "0 (off) or more", no_repeat_ngram_size);
  check(min_tokens >= 0, "min_tokens", "0 or more", min_tokens);
  for (const auto& [id, bias] : logit_bias)
    check(bias < std::numeric_limits<float>::infinity(), "logit_bias", "a number or -inf", bias);
}

bool SamplingOptions::changes_logits() const {
  return !logit_bias.empty() || !allowed_tokens.empty() || repetition_penalty != 1 || presence_penalty != 0 ||
         frequency_penalty != 0 || dry.multiplier != 0 || no_repeat_ngram_size > 0 || !bad_words.empty() ||
         (min_tokens > 0 && !end_tokens.empty()) || logits_processor != nullptr;
}

Sampler::Sampler(const SamplingOptions& options)
    : options_(options),
      rng_(RngKey{options.seed, 0x73616d706c65}),
      mirostat_(options.mirostat_tau, options.mirostat_eta) {
  options_.validate();
  if (options_.temperature < kGreedyBelow) options_.temperature = 0;
  std::erase_if(options_.dry.breakers, [](const TokenSequence& breaker) { return breaker.empty(); });
  std::ranges::sort(options_.dry.breakers);
}

std::int32_t Sampler::operator()(std::span<const float> logits, std::span<const std::int32_t> history,
                                 std::size_t prompt, const grammar::TokenMask* allowed) {
  if (greedy() && allowed == nullptr && !logits.empty()) {
    const std::int32_t token = argmax_tokens(as_row(logits)).front();
    if (token >= 0) return token;  // else we say below what is wrong
  }
  take(logits, history, prompt, allowed);
  if (options_.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits_) - logits_.begin());
  return restricts_by_list() ? draw_listed() : draw_ranked();
}

std::int32_t Sampler::draw_ranked() {
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

std::int32_t Sampler::draw_listed() {
  const std::vector<WeightedToken> tokens = candidates();
  const double total = total_weight(tokens);
  double draw = rng_.uniform_double() * total;
  std::size_t at = 0;
  while (at + 1 < tokens.size() && (draw -= tokens[at].weight) >= 0) ++at;
  if (options_.mirostat == 2) mirostat_.drawn(tokens[at].weight / total);
  return tokens[at].id;
}

// Whether more than a number of the most probable tokens has to be known.
bool Sampler::restricts_by_list() const {
  return options_.mirostat == 2 || options_.typical_p < 1 || options_.xtc_probability > 0;
}

// What is left to draw from, most probable first.
std::vector<WeightedToken> Sampler::candidates() {
  const bool mirostat = options_.mirostat == 2;
  const std::size_t count = mirostat ? logits_.size() : kept().count;
  std::vector<WeightedToken> tokens;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const double each = weight(ranked(rank));
    if (each == 0) break;
    tokens.push_back({ranked(rank).id, each});
  }
  if (mirostat) {
    mirostat_.keep(tokens);
    return tokens;
  }
  const auto least = static_cast<std::size_t>(options_.min_keep);
  if (options_.typical_p < 1) keep_typical(tokens, options_.typical_p, least);
  if (options_.xtc_probability > 0 && rng_.uniform_double() <= options_.xtc_probability)
    exclude_top_choices(tokens, options_.xtc_threshold, least);
  return tokens;
}

std::vector<WeightedToken> Sampler::distribution(std::span<const float> logits,
                                                 std::span<const std::int32_t> history, std::size_t prompt) {
  take(logits, history, prompt);
  std::vector<WeightedToken> tokens;
  if (options_.temperature == 0) {
    tokens.push_back({ranked(0).id, 1});
  } else {
    tokens = candidates();
  }
  const double total = total_weight(tokens);
  for (WeightedToken& token : tokens) token.weight /= total;
  return tokens;
}

// Checks the logits, and makes of them what is drawn from.
void Sampler::take(std::span<const float> logits, std::span<const std::int32_t> history, std::size_t prompt,
                   const grammar::TokenMask* allowed) {
  float largest = checked_largest(logits);
  logits_.assign(logits.begin(), logits.end());
  if (options_.changes_logits()) change(history, prompt);
  if (allowed != nullptr) keep_allowed(logits_, *allowed);  // last: nothing brings back what it rules out
  if (allowed != nullptr || options_.changes_logits()) {
    largest = largest_logit(logits_);
    INGOT_CHECK(largest < std::numeric_limits<float>::infinity(),
                NothingToDraw("logit_bias or a penalty made one of them infinite or NaN"));
    INGOT_CHECK(
        std::isfinite(largest),
        NothingToDraw("no token is left: a grammar, logit_bias, bad_words, min_tokens, a logits processor "
                      "and their like rule out all of them"));
  }
  float temperature = options_.temperature > 0 ? static_cast<float>(options_.temperature) : 1.0F;
  if (options_.temperature > 0 && options_.dynatemp_range > 0) {
    const double now = dynamic_temperature(logits_, largest, options_.temperature, options_.dynatemp_range,
                                           options_.dynatemp_exponent);
    temperature = static_cast<float>(std::max(now, kGreedyBelow));
  }
  if (!(std::abs(largest / temperature) < 1e6F)) {  // differences of such numbers, if not they, are lost
    for (float& logit : logits_) logit -= largest;
    largest = 0;
  }
  divide_logits(logits_, temperature);
  top_ = largest / temperature;
  candidates_.clear();
  sorted_ = 0;
  lowest_ = std::numeric_limits<float>::infinity();
}

void Sampler::change(std::span<const std::int32_t> history, std::size_t prompt) {
  const SamplingOptions& o = options_;
  const std::span<const std::int32_t> written = history.subspan(std::min(prompt, history.size()));
  if (!o.allowed_tokens.empty()) keep_tokens(logits_, o.allowed_tokens);
  add_bias(logits_, o.logit_bias);
  const auto seen = [&](std::span<const std::int32_t> tokens) {
    return o.repeat_last_n < 0
               ? tokens
               : tokens.last(std::min(tokens.size(), static_cast<std::size_t>(o.repeat_last_n)));
  };
  if (o.repetition_penalty != 1)
    penalize_repetition(logits_, seen(history), static_cast<float>(o.repetition_penalty));
  if (o.presence_penalty != 0 || o.frequency_penalty != 0) {
    penalize_counts(logits_, seen(written), static_cast<float>(o.presence_penalty),
                    static_cast<float>(o.frequency_penalty));
  }
  if (o.dry.multiplier != 0) penalize_dry(logits_, history, o.dry);
  if (o.no_repeat_ngram_size > 0) ban_repeated_ngrams(logits_, history, o.no_repeat_ngram_size);
  ban_sequences(logits_, history, o.bad_words);
  if (static_cast<std::int64_t>(written.size()) < o.min_tokens) {
    for (const std::int32_t id : o.end_tokens) ban_sequences(logits_, {}, std::array{TokenSequence{id}});
  }
  if (o.logits_processor) {
    o.logits_processor(logits_, history);
    INGOT_CHECK(largest_logit(logits_) < std::numeric_limits<float>::infinity(),
                NonFinite("logits", "the logits processor made one of them NaN or infinite"));
  }
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

// Those that are e^-6 times as likely as the most probable, then e^-12, e^-24, ... and at last all.
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

// By top-n-sigma and top-k.
Sampler::Kept Sampler::kept_by_count() {
  Kept all{.count = logits_.size(), .weight = 0};
  if (options_.top_k > 0) all.count = std::min(all.count, static_cast<std::size_t>(options_.top_k));
  if (options_.top_n_sigma > 0) {
    const float lowest = top_ - static_cast<float>(options_.top_n_sigma * deviation(logits_));
    std::size_t count = 1;
    while (count < all.count && ranked(count).logit >= lowest) ++count;
    all.count = count;
  }
  if (all.count == logits_.size()) {
    all.weight = sum_exp_weights(logits_, top_);
  } else {
    for (std::size_t rank = 0; rank < all.count; ++rank) all.weight += weight(ranked(rank));
  }
  return all;
}

Sampler::Kept Sampler::kept() {
  const Kept all = kept_by_count();
  if (options_.top_p >= 1 && options_.min_p <= 0) return all;
  Kept few{.count = 1, .weight = weight(ranked(0))};
  const auto least = static_cast<std::size_t>(options_.min_keep);
  while (few.count < all.count && (few.count < least || few.weight < options_.top_p * all.weight)) {
    const double next = weight(ranked(few.count));
    if (few.count >= least && next < options_.min_p) break;
    few.weight += next;
    ++few.count;
  }
  return few;
}

}  // namespace ingot
