#pragma once

#include <cstdint>

#include "ingot/models/encoder/input.h"
#include "ingot/ops/qkv.h"

namespace ingot {

inline constexpr std::int64_t kRelativePositionBuckets = 32;

/// The class of each distance of two tokens, i64 [length, length], as T5 (Raffel et al. 2020) and MPNet have
/// it: half of the 32 classes for keys before the query and half for those behind; near distances have one
/// each, the others share, by their logarithm, up to 128 tokens.
Tensor relative_position_buckets(std::int64_t length);

/// Attention within each text of `input`, with `bias` [heads, n, n], n at least the longest text, added to
/// the scaled scores. q, k, v: [B, S, heads, D]; returns [B, S, heads, D], zeros for padding. Holds the
/// scores of one sequence at a time.
Tensor attention_with_bias(const Qkv& qkv, const Tensor& bias, const EncoderInput& input);

}  // namespace ingot
