#pragma once

#include <span>

#include "ingot/ops/attention.h"

namespace ingot {

/// The cache of one sequence, and how many of the queries are its last ones.
struct CachedSequence {
  std::int64_t queries = 0;
  Tensor keys, values;            ///< [1, T, Hkv, D], f32, bf16, f16 or i8, the queries' own rows included
  Tensor key_scale, value_scale;  ///< f32 [1, T, Hkv] where keys and values are i8
};

/// Causal attention of the next tokens of several sequences on what each has cached; nothing of a cache is
/// copied. q: [N, Hq, D] f32 with N the sum of all queries, sequence after sequence; returns f32 [N, Hq, D].
/// A query's result does not depend on what else is in the call, to the last bit, as long as it comes among
/// at most eight of its sequence. Of the options only scale, window, softcap and bf16_products count. No
/// gradients. Throws ShapeMismatch.
Tensor cached_attention(const Tensor& q, std::span<const CachedSequence> sequences,
                        const AttentionOptions& options = {});

}  // namespace ingot
