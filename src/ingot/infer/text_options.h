#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/infer/sampler.h"

namespace ingot::infer {

/// How a text is written.
struct TextOptions {
  std::int64_t max_tokens = 256;
  SamplingOptions sampling{};
  bool ignore_end_tokens = false;  ///< go on past the model's end tokens
  /// Tokens guessed ahead and checked in one forward pass (Request::speculate).
  std::int64_t speculate = 0;
};

}  // namespace ingot::infer
