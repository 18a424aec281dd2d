#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "ingot/base/parallel.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/session.h"

namespace ingot::infer {

struct PerplexityOptions {
  std::int64_t window = 512;  ///< tokens that the model sees at once
  /// Tokens by which it moves on, 0: half a window; those scored have window - stride before them.
  std::int64_t stride = 0;
  std::int64_t step() const { return stride != 0 ? stride : std::max<std::int64_t>(window / 2, 1); }
};

struct Perplexity {
  double negative_log_likelihood = 0;  ///< summed, in nats
  std::int64_t tokens = 0;             ///< that were scored: all but the first
  double perplexity() const;
  /// Bits that the text's tokens cost, per byte of it.
  double bits_per_byte(std::int64_t bytes) const;
};

/// Runs a text through a model by a sliding window and calls `visit` with the hidden states [n, hidden] that
/// stand before each of the next n tokens to be scored, and with those. Every token but the first is visited
/// once, in order. Throws as measure_perplexity does.
void visit_windows(const LanguageModel& model, std::span<const std::int32_t> tokens,
                   const EngineOptions& engine, const PerplexityOptions& options,
                   FunctionRef<void(const Tensor& states, std::span<const std::int32_t> targets)> visit);

/// −log softmax(row)[target], with the sum in double.
double token_loss(std::span<const float> row, std::int32_t target);

/// How well a model predicts a text, by a sliding window (as transformers' guide to perplexity does): each
/// token is scored once, in the first window that holds it. `on_progress` is called with the tokens scored so
/// far. Throws InvalidConfig for a window beyond the model's context or a stride beyond the window,
/// DimensionMismatch for fewer than two tokens.
Perplexity measure_perplexity(const LanguageModel& model, std::span<const std::int32_t> tokens,
                              const EngineOptions& engine, const PerplexityOptions& options,
                              const std::function<void(std::int64_t)>& on_progress = {});

/// The same of a text, with its size.
struct TextPerplexity {
  Perplexity result;
  std::int64_t bytes = 0;  ///< of the text, as far as it was used
  DType kv_cache = DType::f32;
};
/// `limit`: tokens of the text to use; 0: all. `on_progress` gets the tokens scored so far, and all.
TextPerplexity measure_perplexity(const Session& session, std::string_view text, std::int64_t limit,
                                  const PerplexityOptions& options,
                                  const std::function<void(std::int64_t, std::int64_t)>& on_progress = {});

}  // namespace ingot::infer
