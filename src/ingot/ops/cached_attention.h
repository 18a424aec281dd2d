#pragma once

#include <span>

#include "ingot/ops/attention.h"

namespace ingot {

/// The cache of one sequence, and how many of the queries are its last ones.
struct CachedSequence {
  std::int64_t queries = 0;
  Tensor keys, values;            ///< [1, T, Hkv, D], f32, bf16, f16 or i8, the queries' own rows included
  Tensor key_scale, value_scale;  ///< f32 [1, T, Hkv] where keys and values are i8
  Tensor
      length{};  ///< i32 [1], on the device: so many of the keys count, the queries' being the last; or all
};

/// Causal attention of the next tokens of several sequences on what each has cached, without a copy of it. q:
/// [N, Hq, D] with N the sum of all queries, sequence after sequence; returns f32 [N, Hq, D]. On a GPU the
/// result has q's dtype, or where there are many queries bf16 or f16, for tensor cores: that of the caches,
/// one for all; i8 caches are brought to q's, or f16, in passing. A query's result does not depend on what
/// else is in the call, to the last bit, as long as it comes among at most eight of its sequence. Of the
/// options only scale, window, chunk, softcap, sinks and bf16_matmuls count. No gradients. Throws
/// ShapeMismatch.
Tensor cached_attention(const Tensor& q, std::span<const CachedSequence> sequences,
                        const AttentionOptions& options = {});

/// Caches that a GPU finds by entries (kernels::CacheEntry): of any number of sequences with the same number
/// of queries each, few (kernels::kFewQueries), in one launch.
struct CachedByEntries {
  Tensor entries;                 ///< u8 [B, sizeof(kernels::CacheEntry)], of caches of one dtype
  Tensor keys_like, values_like;  ///< [1, any, Hkv, D]: of one of the caches, for its dtype and sizes
  std::int64_t capacity = 0;      ///< the largest
  Tensor lengths;                 ///< i32 [B], on the device: keys that count, the queries' being the last
};
Tensor cached_attention(const Tensor& q, const CachedByEntries& sequences, const AttentionOptions& options);

}  // namespace ingot
