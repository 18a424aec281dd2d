#pragma once

#include <cstdint>
#include <span>

#include "ingot/infer/engine.h"

namespace ingot::infer {

/// The logprob of `token` by these logits [vocab], with the `top` most probable tokens; of equals the lower
/// id comes first.
DrawnLogprob drawn_logprob(std::span<const float> logits, std::int32_t token, std::int64_t top);

/// The same of a token that stands there, with its rank.
PromptLogprob prompt_logprob(std::span<const float> logits, std::int32_t token, std::int64_t top);

}  // namespace ingot::infer
