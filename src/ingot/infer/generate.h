#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ingot/infer/sampler.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  SamplingOptions sampling;
  /// Generation ends when one of these comes; it is not part of the result.
  std::vector<std::int32_t> stop_tokens;

  void validate() const;
};

enum class StopReason : std::uint8_t { max_tokens, stop_token, context_full, cancelled };

struct Generation {
  std::vector<std::int32_t> tokens;  ///< without the prompt
  StopReason reason = StopReason::max_tokens;
  double prompt_seconds = 0;  ///< until the first token's logits were there
  double decode_seconds = 0;
};

/// Continues `prompt` (at least one token). Each token is handed to `on_token` as soon as it is drawn;
/// returning false there ends generation. The key/value cache grows with the text, up to the model's context;
/// a prompt longer than that is DimensionMismatch.
Generation generate(const LanguageModel& model, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options, const std::function<bool(std::int32_t)>& on_token = {});

}  // namespace ingot
