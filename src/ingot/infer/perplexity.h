#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ingot/infer/engine.h"

namespace ingot::infer {

struct PerplexityOptions {
  std::int64_t window = 512;  ///< tokens that the model sees at once
  std::int64_t stride = 256;  ///< tokens by which it moves on; those scored have window - stride before them
};

struct Perplexity {
  double negative_log_likelihood = 0;  ///< summed, in nats
  std::int64_t tokens = 0;             ///< that were scored: all but the first
  double perplexity() const;
  /// Bits that the text's tokens cost, per byte of it.
  double bits_per_byte(std::int64_t bytes) const;
};

/// How well a model predicts a text, by a sliding window (as transformers' guide to perplexity does): each
/// token is scored once, in the first window that holds it. `on_progress` is called with the tokens scored so
/// far. Throws InvalidConfig for a window beyond the model's context or a stride beyond the window,
/// DimensionMismatch for fewer than two tokens.
Perplexity measure_perplexity(const LanguageModel& model, std::span<const std::int32_t> tokens,
                              const EngineOptions& engine, const PerplexityOptions& options,
                              const std::function<void(std::int64_t)>& on_progress = {});

}  // namespace ingot::infer
