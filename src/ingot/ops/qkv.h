#pragma once

#include <cstdint>

#include "ingot/core/tensor.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/rope.h"

namespace ingot {

/// Queries, keys and values of self-attention, by heads: three tensors, or one that holds the heads of all
/// three, as a fused projection writes them. Functions of it take whichever kernels read and write fewer
/// bytes, and give the same numbers for both.
class Qkv {
 public:
  /// q: [B, S, heads, D]; k, v: [B, S, kv_heads, D].
  Qkv(Tensor q, Tensor k, Tensor v);
  /// fused: [B, S, heads + 2·kv_heads, D], heads of q, then of k, then of v.
  Qkv(Tensor fused, std::int64_t heads, std::int64_t kv_heads);

  /// Views of the fused tensor where there is one.
  Tensor queries() const;
  Tensor keys() const;
  Tensor values() const;

 private:
  friend Qkv normalize(Qkv x, const HeadNorms& norms);
  friend Qkv rotate(Qkv x, const RopeTable& table, const Tensor& positions, bool interleaved);
  friend Qkv normalize_and_rotate(Qkv x, const HeadNorms& norms, const RopeTable& table,
                                  const Tensor& positions);
  friend Tensor attention(const Qkv& x, const AttentionOptions& options);
  bool is_fused() const { return fused_.defined(); }

  Tensor fused_;  // or
  Tensor q_, k_, v_;
  std::int64_t heads_ = 0, kv_heads_ = 0;
};

/// RMS norm of each head of queries and keys (QK norm, Henry et al. 2020).
Qkv normalize(Qkv x, const HeadNorms& norms);
/// Rotary position embedding of queries and keys. positions: i64 or i32 [S] or [B, S]; interleaved: as
/// RopeOptions has it.
Qkv rotate(Qkv x, const RopeTable& table, const Tensor& positions, bool interleaved);
/// normalize(), then rotate(), in one pass.
Qkv normalize_and_rotate(Qkv x, const HeadNorms& norms, const RopeTable& table, const Tensor& positions);
/// [B, S, heads, D].
Tensor attention(const Qkv& x, const AttentionOptions& options);

}  // namespace ingot
