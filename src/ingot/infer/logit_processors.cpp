#include "ingot/infer/logit_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "ingot/grammar/token_set.h"

namespace ingot {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The logit of a token; null outside the vocabulary.
float* logit_of(std::span<float> logits, std::int32_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size() ? &logits[static_cast<std::size_t>(id)]
                                                                 : nullptr;
}

void ban(std::span<float> logits, std::int32_t id) {
  if (float* logit = logit_of(logits, id)) *logit = kNever;
}

// Tokens behind the last breaker, or all. `breakers` are sorted, and none is empty.
std::size_t length_since_breaker(std::span<const std::int32_t> tokens,
                                 const std::vector<TokenSequence>& breakers) {
  const auto head = [](const TokenSequence& breaker) { return breaker.front(); };
  for (std::size_t back = 0; back < tokens.size(); ++back) {
    const std::span<const std::int32_t> rest = tokens.last(back + 1);
    std::optional<std::size_t> longest;
    for (auto at = std::ranges::lower_bound(breakers, rest.front(), {}, head);
         at != breakers.end() && head(*at) == rest.front(); ++at) {
      const TokenSequence& breaker = *at;
      if (breaker.size() > rest.size()) continue;
      if (!std::equal(breaker.begin(), breaker.end(), rest.begin())) continue;
      longest = std::max(longest.value_or(0), breaker.size());
    }
    if (longest) return rest.size() - *longest;
  }
  return tokens.size();
}

// z[k]: how many tokens before position size − k, going back, are those at the end (the Z function of the
// reversed tokens).
std::vector<std::size_t> repeated_suffixes(std::span<const std::int32_t> tokens) {
  const std::size_t n = tokens.size();
  const auto back = [&](std::size_t i) { return tokens[n - 1 - i]; };
  std::vector<std::size_t> z(n, 0);
  for (std::size_t k = 1, left = 0, right = 0; k < n; ++k) {
    if (k < right) z[k] = std::min(right - k, z[k - left]);
    while (k + z[k] < n && back(z[k]) == back(k + z[k])) ++z[k];
    if (k + z[k] > right) {
      left = k;
      right = k + z[k];
    }
  }
  return z;
}

}  // namespace

void keep_allowed(std::span<float> logits, const grammar::TokenMask& allowed) {
  const std::span<const std::uint64_t> words = allowed.words();
  for (std::size_t i = 0; i < logits.size(); i += 64) {
    const std::uint64_t word = i / 64 < words.size() ? words[i / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
    const std::span<float> some = logits.subspan(i, std::min<std::size_t>(64, logits.size() - i));
    for (std::size_t k = 0; k < some.size(); ++k) some[k] = ((word >> k) & 1U) != 0 ? some[k] : kNever;
  }
}

void keep_tokens(std::span<float> logits, std::span<const std::int32_t> tokens) {
  grammar::TokenMask allowed(static_cast<std::int32_t>(logits.size()));
  for (const std::int32_t id : tokens)
    if (logit_of(logits, id) != nullptr) allowed.add(id);
  keep_allowed(logits, allowed);
}

void add_bias(std::span<float> logits, std::span<const TokenBias> bias) {
  for (const auto& [id, value] : bias) {
    if (float* logit = logit_of(logits, id)) *logit += value;
  }
}

void penalize_repetition(std::span<float> logits, std::span<const std::int32_t> tokens, float penalty) {
  TokenSequence seen(tokens.begin(), tokens.end());
  std::ranges::sort(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const std::int32_t id : seen) {
    if (float* logit = logit_of(logits, id)) *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
  }
}

void penalize_counts(std::span<float> logits, std::span<const std::int32_t> tokens, float presence,
                     float frequency) {
  TokenSequence seen(tokens.begin(), tokens.end());
  std::ranges::sort(seen);
  for (std::size_t i = 0, next = 0; i < seen.size(); i = next) {
    while (next < seen.size() && seen[next] == seen[i]) ++next;
    if (float* logit = logit_of(logits, seen[i]))
      *logit -= static_cast<float>(next - i) * frequency + presence;
  }
}

void penalize_dry(std::span<float> logits, std::span<const std::int32_t> tokens, const DryOptions& o) {
  if (o.last_n >= 0) tokens = tokens.last(std::min(tokens.size(), static_cast<std::size_t>(o.last_n)));
  const auto allowed = static_cast<std::size_t>(o.allowed_length);
  const std::size_t limit = length_since_breaker(tokens, o.breakers);
  if (tokens.size() <= allowed || limit < allowed) return;
  std::map<std::int32_t, std::size_t> longest;  // of the repetitions that a token would go on with
  const std::vector<std::size_t> repeated = repeated_suffixes(tokens);
  for (std::size_t k = 1; k < tokens.size(); ++k) {
    const std::size_t length = std::min(repeated[k], limit);
    if (length < allowed) continue;
    std::size_t& most = longest[tokens[tokens.size() - k]];
    most = std::max(most, length);
  }
  for (const TokenSequence& breaker : o.breakers)
    if (breaker.size() == 1) longest.erase(breaker.front());
  // The power has to stay within float.
  const double most = o.base > 1.000001 ? std::floor(88.7228391 / std::log(o.base)) : 1e9;
  for (const auto& [id, length] : longest) {
    const double exponent = std::min(static_cast<double>(length - allowed), most);
    if (float* logit = logit_of(logits, id))
      *logit -= static_cast<float>(o.multiplier * std::pow(o.base, exponent));
  }
}

void ban_repeated_ngrams(std::span<float> logits, std::span<const std::int32_t> tokens, std::int64_t n) {
  const auto length = static_cast<std::size_t>(n) - 1;  // of what stands before the token
  if (tokens.size() <= length) return;
  const std::span<const std::int32_t> last = tokens.last(length);
  for (std::size_t i = 0; i + length < tokens.size(); ++i) {
    if (std::equal(last.begin(), last.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
      ban(logits, tokens[i + length]);
  }
}

void ban_sequences(std::span<float> logits, std::span<const std::int32_t> tokens,
                   std::span<const TokenSequence> sequences) {
  for (const TokenSequence& sequence : sequences) {
    if (sequence.empty() || sequence.size() - 1 > tokens.size()) continue;
    const std::span<const std::int32_t> last = tokens.last(sequence.size() - 1);
    if (std::equal(last.begin(), last.end(), sequence.begin())) ban(logits, sequence.back());
  }
}

double dynamic_temperature(std::span<const float> logits, float largest, double temperature, double range,
                           double exponent) {
  if (logits.size() < 2) return temperature;
  double total = 0, apart = 0;  // of weights e^(x − largest), and of x − largest by these
  for (const float logit : logits) {
    const double distance = static_cast<double>(logit) - static_cast<double>(largest);
    const double weight = std::exp(distance);
    if (weight == 0) continue;
    total += weight;
    apart += weight * distance;
  }
  const double entropy = std::max(0.0, std::log(total) - apart / total);
  const double share = entropy / std::log(static_cast<double>(logits.size()));
  const double lowest = std::max(0.0, temperature - range);
  return lowest + (temperature + range - lowest) * std::pow(share, exponent);
}

}  // namespace ingot
