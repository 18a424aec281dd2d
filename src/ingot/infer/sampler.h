#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// How the next token is chosen. The steps apply in this order: repetition penalty, temperature, top-k,
/// top-p, min-p.
struct SamplingOptions {
  double temperature = 0.8;         ///< 0: always the likeliest token (greedy)
  std::int64_t top_k = 0;           ///< keep the k likeliest; 0: all
  double top_p = 1.0;               ///< keep the fewest tokens whose probabilities reach p (nucleus sampling)
  double min_p = 0.0;               ///< drop tokens less likely than min_p times the likeliest
  double repetition_penalty = 1.0;  ///< > 1 makes tokens that are there already less likely (CTRL's rule)
  std::uint64_t seed = 0;

  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// Draws tokens; the same options and logits give the same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// Whether it always takes the likeliest token, as likeliest_tokens() does.
  bool greedy() const { return options_.temperature == 0 && options_.repetition_penalty == 1.0; }

  /// The next token's id from its logits [vocab]; `history` is what a repetition penalty counts. Throws
  /// NonFinite when a logit is NaN or +∞, or none is finite.
  std::int32_t operator()(std::span<const float> logits, std::span<const std::int32_t> history = {});

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
  };
  static bool likelier(const Candidate& a, const Candidate& b);
  void take(std::span<const float> logits, std::span<const std::int32_t> history);
  const Candidate& ranked(std::size_t rank);
  void sort_until(std::size_t count);
  void collect_more();
  double weight(const Candidate& candidate) const;
  struct Kept {  // the likeliest tokens, which are left to draw from
    std::size_t count;
    double weight;  // of all of them
  };
  Kept kept();

  SamplingOptions options_;
  Rng rng_;
  std::vector<float> logits_;  // penalised and divided by the temperature
  float top_ = 0;              // the largest of them
  // The likeliest tokens: all whose logit is at least lowest_, of which sorted_ stand in front in order.
  std::vector<Candidate> candidates_;
  float lowest_ = 0;
  std::size_t sorted_ = 0;
};

/// What a greedy sampler takes from each row of `logits` f32 [rows, vocab], found where these are, so that
/// they need not leave a device; −1 where the largest is not finite, or one is NaN.
std::vector<std::int32_t> likeliest_tokens(const Tensor& logits);

}  // namespace ingot
