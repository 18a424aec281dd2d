#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::infer {

/// Drafts tokens from what stood in the sequence before (prompt look-up, Saxena 2023): finds the latest
/// earlier occurrence of the last three tokens, or else of the last two, and returns up to `count` tokens
/// that followed there. Empty where there is none.
std::vector<std::int32_t> ngram_draft(std::span<const std::int32_t> tokens, std::int64_t count);

}  // namespace ingot::infer
