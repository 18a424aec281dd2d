#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/infer/constraint.h"
#include "ingot/infer/sampler.h"

namespace ingot::infer {

/// How text is generated. Where words are given, the session puts their tokens into `sampling`.
struct TextOptions {
  std::int64_t max_tokens = 256;
  SamplingOptions sampling{};
  std::vector<std::string> stop{};       ///< generation ends before the first of these
  std::vector<std::string> bad_words{};  ///< never written, neither behind a space nor without one
  /// Where DRY's looking back ends: any token that holds one of these, or begins one that goes on behind it.
  std::vector<std::string> dry_sequence_breakers{"\n", ":", "\"", "*"};
  Constraint constraint{};         ///< what the text has to match (structured output)
  bool ignore_end_tokens = false;  ///< go on past the model's end tokens
  /// Draft tokens that are verified in one forward pass (Request::speculate).
  std::int64_t speculate = 0;
  std::int64_t logprobs = -1;         ///< Request::logprobs
  bool include_stop = false;          ///< what ended the text, a stop string or token, is part of it
  std::int64_t thinking_budget = -1;  ///< tokens between the markers of `thoughts`; −1: any number
  grammar::Thoughts thoughts{};       ///< the markers of reasoning; `begun`: by the prompt
  std::string thoughts_closing{};     ///< what closes them where the budget is spent; empty: their end
};

}  // namespace ingot::infer
