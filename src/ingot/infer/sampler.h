#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/core/tensor.h"
#include "ingot/infer/candidate_filters.h"
#include "ingot/infer/logit_processors.h"

namespace ingot {

namespace grammar {
class TokenMask;
}

/// Changes the logits [vocab] of the token that comes behind `history`, prompt included. Threads may call it
/// for several sequences at once; what it throws fails its sequence.
using LogitsProcessor = std::function<void(std::span<float> logits, std::span<const std::int32_t> history)>;

/// How the next token is chosen. The steps apply in the order of docs/inference.md: what changes logits, the
/// temperature, what restricts the choice, the draw.
struct SamplingOptions {
  double temperature = 0.8;  ///< 0, or below 1e-5: always the most probable token (greedy)
  /// The temperature is within so much of it, the surer the model is of the next token the lower
  /// (dynamic_temperature); 0: it stays.
  double dynatemp_range = 0.0;
  double dynatemp_exponent = 1.0;
  std::int64_t top_k = 0;        ///< keep the k most probable; 0: all
  double top_p = 1.0;            ///< keep the fewest tokens whose probabilities reach p (nucleus sampling)
  double min_p = 0.0;            ///< drop tokens less likely than min_p times the most probable
  double typical_p = 1.0;        ///< keep the most typical tokens whose probabilities reach p (keep_typical)
  double top_n_sigma = 0.0;      ///< keep logits within n standard deviations of the largest; 0: all
  double xtc_probability = 0.0;  ///< how often the top choices are excluded (exclude_top_choices); 0: never
  double xtc_threshold = 0.1;
  std::int64_t min_keep = 0;  ///< tokens that top-p, min-p, typical-p and XTC leave at least
  std::int64_t mirostat = 0;  ///< 2: Mirostat 2 instead of the restrictions above; 0: off
  double mirostat_tau = 5.0, mirostat_eta = 0.1;

  std::vector<TokenBias> logit_bias{};         ///< added to a token's logit
  std::vector<std::int32_t> allowed_tokens{};  ///< no others come; empty: any
  double repetition_penalty = 1.0;  ///< > 1 makes tokens that are there already less likely (CTRL's rule)
  /// Taken from the logits of tokens that were written (not those of the prompt): once, and for each time.
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  /// The last tokens that these three penalties look at; −1: all, 0: none.
  std::int64_t repeat_last_n = -1;
  DryOptions dry{};
  std::int64_t no_repeat_ngram_size = 0;   ///< no n-gram comes twice; 0: off
  std::vector<TokenSequence> bad_words{};  ///< sequences that never come
  std::int64_t min_tokens = 0;             ///< end_tokens do not come before so many
  std::vector<std::int32_t> end_tokens{};
  LogitsProcessor logits_processor{};  ///< after all of these; null: none

  std::uint64_t seed = 0;

  /// Whether anything changes logits before the draw.
  bool changes_logits() const;
  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// The options leave no token to draw, or make a logit infinite: the fault of who chose them, not of the
/// model.
class NothingToDraw : public NonFinite {
 public:
  explicit NothingToDraw(std::string_view problem) : NonFinite("logits", problem) {}
};

/// Draws tokens; the same options and logits give the same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// Whether it always takes the most probable token, as argmax_tokens() does.
  bool greedy() const { return options_.temperature == 0 && !options_.changes_logits(); }

  /// The next token's id from its logits [vocab]; `history`: the sequence so far, of which the first `prompt`
  /// tokens are the prompt; `allowed`: the tokens that a grammar allows, null for all. Throws NonFinite when
  /// a logit is NaN or +∞, NothingToDraw when no token is left.
  std::int32_t operator()(std::span<const float> logits, std::span<const std::int32_t> history = {},
                          std::size_t prompt = 0, const grammar::TokenMask* allowed = nullptr);

  /// The tokens that a draw would choose from, with their probabilities, most probable first.
  std::vector<WeightedToken> distribution(std::span<const float> logits,
                                          std::span<const std::int32_t> history = {}, std::size_t prompt = 0);

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
  };
  static bool likelier(const Candidate& a, const Candidate& b);
  void take(std::span<const float> logits, std::span<const std::int32_t> history, std::size_t prompt,
            const grammar::TokenMask* allowed = nullptr);
  void change(std::span<const std::int32_t> history, std::size_t prompt);
  const Candidate& ranked(std::size_t rank);
  void sort_until(std::size_t count);
  void collect_more();
  double weight(const Candidate& candidate) const;
  struct Kept {  // the most probable tokens, which are left to draw from
    std::size_t count;
    double weight;  // of all of them
  };
  Kept kept();
  Kept kept_by_count();
  bool restricts_by_list() const;
  std::vector<WeightedToken> candidates();
  std::int32_t draw_ranked();
  std::int32_t draw_listed();

  SamplingOptions options_;
  Rng rng_;
  Mirostat mirostat_;
  std::vector<float> logits_;  // changed, and divided by the temperature
  float top_ = 0;              // the largest of them
  // The most probable tokens: all whose logit is at least lowest_, of which sorted_ stand in front in order.
  std::vector<Candidate> candidates_;
  float lowest_ = 0;
  std::size_t sorted_ = 0;
};

/// What a greedy sampler takes from each row of `logits` f32 [rows, vocab], found where these are, so that
/// they need not leave a device; −1 where the largest is not finite, or one is NaN.
std::vector<std::int32_t> argmax_tokens(const Tensor& logits);

}  // namespace ingot
