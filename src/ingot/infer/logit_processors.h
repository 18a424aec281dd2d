#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// What is done to logits before a token is drawn: each of these is one sampling option. Ids outside the
// vocabulary are passed over.
namespace ingot {

namespace grammar {
class TokenMask;
}

using TokenSequence = std::vector<std::int32_t>;
using TokenBias = std::pair<std::int32_t, float>;

/// "Don't repeat yourself": a token that would go on with a repetition of L ≥ allowed_length tokens loses
/// multiplier · base^(L − allowed_length).
struct DryOptions {
  double multiplier = 0;  ///< 0: off
  double base = 1.75;
  std::int64_t allowed_length = 2;
  std::int64_t last_n = -1;  ///< tokens that are looked back at; −1: all
  /// Where the last of these stands, looking back ends. Sorted, for penalize_dry.
  std::vector<TokenSequence> breakers{};
};

/// Rules out what a grammar does not allow.
void keep_allowed(std::span<float> logits, const grammar::TokenMask& allowed);

/// Rules out all tokens but these.
void keep_tokens(std::span<float> logits, std::span<const std::int32_t> tokens);

/// Adds each bias to its token's logit; −∞ rules the token out.
void add_bias(std::span<float> logits, std::span<const TokenBias> bias);

/// Divides the positive logits of all tokens in `tokens` by `penalty`, and multiplies the negative ones
/// (CTRL).
void penalize_repetition(std::span<float> logits, std::span<const std::int32_t> tokens, float penalty);

/// Takes frequency · count + presence from the logit of each token that `tokens` holds (count times).
void penalize_counts(std::span<float> logits, std::span<const std::int32_t> tokens, float presence,
                     float frequency);

void penalize_dry(std::span<float> logits, std::span<const std::int32_t> tokens, const DryOptions& options);

/// Rules out each token that would make an n-gram which `tokens` holds already.
void ban_repeated_ngrams(std::span<float> logits, std::span<const std::int32_t> tokens, std::int64_t n);

/// Rules out each token that would complete one of `sequences` behind `tokens`.
void ban_sequences(std::span<float> logits, std::span<const std::int32_t> tokens,
                   std::span<const TokenSequence> sequences);

/// Where in [temperature − range, temperature + range] the temperature is, by the share that the entropy of
/// these tokens has of the most that it could have, to the power `exponent`: a model that is sure gets a low
/// one. `largest`: of the logits. At least 0.
double dynamic_temperature(std::span<const float> logits, float largest, double temperature, double range,
                           double exponent);

}  // namespace ingot
